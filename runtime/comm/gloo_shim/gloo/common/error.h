// See gloo/context.h: nothing of this header is needed.
#pragma once
