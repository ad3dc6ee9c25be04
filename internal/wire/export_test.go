package wire

// Kinds are those of all statements.
func Kinds() []string { return []string{kindTrust, kindJoin} }

// Split takes the signatures off what was said.
func Split(data []byte) (seals, said []byte, err error) { return split(data) }

// Statement is what a key signs.
func Statement(kind, key string, said []byte) []byte {
	return statement{kind: kind, said: said}.text(key)
}
