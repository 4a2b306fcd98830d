/* SPDX-License-Identifier: LGPL-3.0-only */
#include <flux/core.h>
#include <flux/jobtap.h>
