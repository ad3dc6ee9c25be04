package frame

// SealAs is Seal with a head of the test's choice.
func (p *Pair) SealAs(h Head, about Nonce, body []byte) ([]byte, error) {
	return p.seal(h, about, body)
}

// MaxRemembered is how many frames a Window remembers in each of its halves.
const MaxRemembered = maxRemembered
