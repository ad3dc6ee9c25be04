package access

import "slices"

// GroupRights are the rights that the groups of an identity provider give; nil gives none.
type GroupRights map[string]Rights

// Rights are every right, or some.
type Rights struct {
	Admin  bool
	Grants []Grant
}

// adminWord is the text of every right in ParseRights.
const adminWord = "admin"

// ParseRights reads rights: each text is a grant in the form of ParseGrant, or "admin". It returns the first error.
func ParseRights(texts []string) (r Rights, err error) {
	for _, text := range texts {
		if text == adminWord {
			r.Admin = true
			continue
		}
		g, err := ParseGrant(text)
		if err != nil {
			return Rights{}, err
		}
		r.Grants = append(r.Grants, g)
	}
	return r, nil
}

// Of returns the rights of somebody in several groups.
func (g GroupRights) Of(names []string) (r Rights) {
	for _, name := range names {
		r.Admin = r.Admin || g[name].Admin
		r.Grants = append(r.Grants, g[name].Grants...)
	}
	return r
}

// Knows reports whether one of the names has an entry, perhaps without a right.
func (g GroupRights) Knows(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, known := g[name]; return known })
}
