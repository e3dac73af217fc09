// Weights: safetensors files, Hugging Face directories, strict loading, random initialisation, writing models back.
//
//   read:   ModelDirectory::open -> LoadPlan(directory, table, ignore) -> load(i, ...)
//   write:  ModelExport::over_source / from_scratch -> create -> write(i, ...) -> publish
//   random: initialise(table[i], seed, ...)
#pragma once

#include "weights/adapter_directory.h"
#include "weights/convert.h"
#include "weights/directory.h"
#include "weights/dtype.h"
#include "weights/export.h"
#include "weights/file_system.h"
#include "weights/finite.h"
#include "weights/init.h"
#include "weights/load.h"
#include "weights/safetensors.h"
