// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func TSC() uint64
TEXT ·TSC(SB), NOSPLIT, $0-8
	LFENCE
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	LFENCE
	MOVQ AX, ret+0(FP)
	RET
