package processfile

// UnsupportedFields is for tests.
func UnsupportedFields() []string { return unsupported() }
