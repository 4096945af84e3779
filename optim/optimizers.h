// All optimizers.
#pragma once

#include "optim/adadelta.h"
#include "optim/adafactor.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/lion.h"
#include "optim/rmsprop.h"
#include "optim/sgd.h"
