#include "textflag.h"

// func text() uintptr
TEXT ·text(SB), NOSPLIT, $0-8
	MOVD $gate<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

// The gate. It is copied into a program of its own: it may use no address but those that it is given. RSP points to
// the number of arguments, as the kernel leaves it.
//
// R19 is RSP, R20 the script, R21 the step.
TEXT gate<>(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R19
	SUB  $8192, R19, R20
	MOVD $0, R0
	MOVD R20, R1
	MOVD $4096, R2
	MOVD $63, R8         // read
	SVC
	CMP  $4096, R0
	BNE  unrun
	MOVD R20, R21

step:
	MOVD 8(R21), R9
	ADD  $16, R21, R10
	MOVD $4, R11

argument:
	MOVD (R10), R12
	AND  $3, R9, R13
	CBZ  R13, number
	CMP  $1, R13
	BNE  stack
	ADD  R20, R12
	B    number

stack:
	ADD  R19, R12
	CMP  $2, R13
	BEQ  number
	MOVD (R12), R12

number:
	MOVD R12, (R10)
	LSR  $2, R9
	ADD  $8, R10
	SUB  $1, R11
	CBNZ R11, argument
	MOVD 16(R21), R0
	MOVD 24(R21), R1
	MOVD 32(R21), R2
	MOVD 40(R21), R3
	MOVD (R21), R8
	CMN  $1, R8
	BNE  call
	MOVD R1, (R0)
	B    next

call:
	SVC
	MOVD 48(R21), R9
	CMP  R9, R0
	BLT  failed

next:
	ADD  $64, R21
	B    step

failed:
	MOVD $2, R0
	MOVWU 56(R21), R1
	ADD  R20, R1
	MOVWU 60(R21), R2
	MOVD $64, R8         // write
	SVC

unrun:
	MOVD $125, R0
	MOVD $94, R8         // exit_group
	SVC
	WORD $0x2d646e65
	WORD $0x65746167     // the end: see image
