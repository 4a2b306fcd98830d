// SPDX-License-Identifier: LGPL-3.0-only
