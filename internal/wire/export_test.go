package wire

// Kinds are those of all statements.
func Kinds() []string { return []string{kindManifest, kindReport, kindAnswer, kindReceipt, kindJoin} }

// Statement is what a key signs.
func Statement(kind, key, to string, about, said []byte) []byte {
	return statement{kind: kind, to: to, about: about, said: said}.text(key)
}
