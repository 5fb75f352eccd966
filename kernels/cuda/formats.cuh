// Every packed weight format; -D FORMAT=<name> chooses the one a source is compiled for.
#pragma once
#include "formats/blocks32.cuh"
#include "formats/floats.cuh"
#include "formats/superblocks.cuh"
