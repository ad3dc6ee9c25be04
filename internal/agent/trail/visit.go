package trail

// Visit follows a path and hands do what is at its end, which is let go of when do returns. Whoever gives one decides by whose rights, and
// where it may lead.
type Visit func(path string, do func(*Trail) error) error

// Plain is the Visit with the rights of this process, to wherever it leads.
func Plain(path string, do func(*Trail) error) error {
	t, err := Follow(path)
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}
