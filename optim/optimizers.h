// All optimizers.
#pragma once

#include "optim/adafactor.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/sgd.h"
