package gate

// OnDisk is Open where the kernel executes no files in memory.
var OnDisk = func(dir string) (closer, error) {
	program, err := image()
	if err != nil {
		return nil, err
	}
	return onDisk(program, dir)
}

type closer interface {
	Fd() uintptr
	Close() error
}

// Image is the program.
func Image() ([]byte, error) { return image() }
