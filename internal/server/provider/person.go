package provider

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"drover/internal/server/access"
)

// Person is a person as the provider knows the person.
type Person struct {
	// Name is a valid name of a user.
	Name   string
	Groups []string
	// Proved is when the person has proved the identity to the provider; zero if the provider does not tell.
	Proved time.Time
}

// operatorMark begins the names of the operators of a server's machine, who have every right.
const operatorMark = "uid:"

// person reads the claims of a token whose signature, issuer, audience, time and nonce are right.
func (p *Provider) person(token *oidc.IDToken) (Person, error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return Person{}, refuse("the identity token has no readable claims")
	}
	var known struct {
		Party  string          `json:"azp"`
		Proved json.Number     `json:"auth_time"`
		Email  json.RawMessage `json:"email_verified"`
	}
	if err := token.Claims(&known); err != nil {
		return Person{}, refuse("the identity token has claims of another kind than the specification says")
	}
	if known.Party != p.ClientID && (known.Party != "" || len(token.Audience) > 1) {
		return Person{}, refuse("the identity token is for another client: its azp is %.100q", known.Party)
	}
	person := Person{Groups: texts(claims[p.GroupsClaim])}
	if json.Unmarshal(claims[p.NameClaim], &person.Name) != nil {
		return Person{}, refuse("the identity token has no text in its claim %q, which is to hold the name", p.NameClaim)
	}
	if verified := strings.Trim(string(known.Email), `"`); p.NameClaim == "email" && verified != "true" {
		return Person{}, refuse("the email %.100q is not verified", person.Name)
	}
	if fault := fault(person.Name); fault != "" {
		return Person{}, refuse("the name %.100q of the claim %q %s", person.Name, p.NameClaim, fault)
	}
	if seconds, err := known.Proved.Float64(); err == nil && seconds > 0 && seconds < 1e11 {
		person.Proved = time.Unix(int64(seconds), 0)
		if now := p.Now(); person.Proved.After(now) { // the clocks differ
			person.Proved = now
		}
	}
	return person, nil
}

// texts reads a list of texts, or one text.
func texts(claim json.RawMessage) []string {
	var list []string
	if json.Unmarshal(claim, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(claim, &one) == nil {
		return []string{one}
	}
	return nil
}

// fault says why a name cannot be that of a user; empty if it can.
func fault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > access.MaxUser:
		return "is too long"
	case strings.HasPrefix(name, operatorMark):
		return "is reserved for operators of the server's machine"
	case !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }):
		return "holds a blank or a character that cannot be shown"
	}
	return ""
}
