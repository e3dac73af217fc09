// A library that plugins of the tests are linked against, under the name of somebody else's.
[[gnu::visibility("default")]] void lf_test_vendor_call() {}
