package instance

// Line is a command line, and its field as callers know it.
type Line struct {
	Field, Line string
	// Later says that another command runs before it, which may make its program.
	Later bool
}
