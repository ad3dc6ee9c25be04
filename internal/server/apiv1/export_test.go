package apiv1

// Routes returns "METHOD path" of every row of the table, the paths with Prefix.
func Routes() []string {
	var all []string
	for _, r := range (&Handler{}).table() {
		all = append(all, r.method+" "+Prefix+r.path)
	}
	return all
}
