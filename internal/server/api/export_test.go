package api

// Routes returns "METHOD path" of every row of the table.
func Routes() []string {
	var all []string
	for _, r := range (&Handler{}).table() {
		all = append(all, r.Pattern)
	}
	return all
}
