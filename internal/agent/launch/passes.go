package launch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"drover/internal/spec"

	"golang.org/x/sys/unix"
)

const (
	// leastOfAll and mostOfAll bound what the kernel passes to a program in all, in bytes; between them it is a quarter
	// of the stack (execve(2), "Limits on size of arguments and environment").
	leastOfAll, mostOfAll = 128 << 10, 6 << 20
	// pagesOfOne is the longest of its strings in pages, with the NUL at its end (MAX_ARG_STRLEN).
	pagesOfOne = 32
	// pointer is what each string takes beside itself, in bytes.
	pointer = 8
)

// Passes fails, in a caller's words, if the kernel would not pass these variables to a program, because one of them or
// all together are too large.
func Passes(e spec.Execution, variables map[string]string) error {
	most, all := pagesOfOne*os.Getpagesize()-1, uint64(0)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		size := len(name) + len("=") + len(variables[name])
		if size > most {
			faults = append(faults, fmt.Errorf("%s has %d bytes with its name, and the kernel passes at most %d", name, size, most))
		}
		all += uint64(size + 1 + pointer)
	}
	var stack unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_STACK, &stack) != nil {
		stack.Cur = 0
	}
	if n, limited := e.RLimits.Get(spec.StackSize); limited {
		stack.Cur = uint64(n) //nolint:gosec // a size is not negative, and Unlimited is the largest number
	}
	if limit := min(max(stack.Cur/4, leastOfAll), mostOfAll); len(faults) == 0 && all > limit { //nolint:mnd // a quarter
		faults = append(faults, fmt.Errorf("all variables have %d bytes, and the kernel passes at most %d", all, limit))
	}
	return errors.Join(faults...)
}
