package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The bounds of questions about packages and their answers, in bytes.
const (
	maxPackageQuestion = 1000
	// MaxPackageAnswer is the longest answer: a piece with its first byte.
	MaxPackageAnswer = 256<<10 + 1
)

// PackageQuestion asks for the signed text of a package of the agent, or for one of its pieces. Anybody may read both:
// the signature of the owner of the hosts proves them, not the way that they take.
type PackageQuestion struct {
	Version string `json:"version"`
	Arch    string `json:"arch"`
	// Piece is the number of a piece, from 0; nil asks for the signed text.
	Piece *int `json:"piece,omitempty"`
}

// ReadPackageQuestion decodes a question.
func ReadPackageQuestion(data []byte) (q PackageQuestion, err error) {
	if len(data) > maxPackageQuestion {
		return q, fmt.Errorf("cannot read question about a package: %d bytes, expected at most %d", len(data),
			maxPackageQuestion)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return q, fmt.Errorf("cannot read question about a package: %w", err)
	}
	return q, nil
}

// The first byte of an answer to a PackageQuestion.
const (
	answerData  = 'd'
	answerError = 'e'
	answerBusy  = 'b'
)

// PackageData returns the answer that holds a signed text or a piece, and PackageError the answer that says in a
// caller's words why there is none.
func PackageData(data []byte) []byte { return append([]byte{answerData}, data...) }

// PackageError returns the answer that says in a caller's words why there is no data.
func PackageError(text string) []byte { return append([]byte{answerError}, text...) }

// PackageBusy returns the answer of a server or a proxy that has no time now: the agent asks again later.
func PackageBusy() []byte { return []byte{answerBusy} }

// ErrDepotBusy says that nobody has time for the package now. A proxy says it, too, while it reaches no server.
var ErrDepotBusy = errors.New("the servers are busy with other hosts, or the proxy does not reach them")

// ErrNoPackage says that the server has answered with an error.
var ErrNoPackage = errors.New("the server does not give the package")

// ReadPackageAnswer returns the data of an answer. The error of the server is an ErrNoPackage with its text, or
// ErrDepotBusy.
func ReadPackageAnswer(answer []byte) ([]byte, error) {
	switch {
	case len(answer) == 0 || len(answer) > MaxPackageAnswer:
		return nil, fmt.Errorf("cannot read answer about a package: %d bytes, expected 1 to %d", len(answer),
			MaxPackageAnswer)
	case answer[0] == answerData:
		return answer[1:], nil
	case answer[0] == answerBusy:
		return nil, ErrDepotBusy
	case answer[0] == answerError && utf8.Valid(answer):
		return nil, fmt.Errorf("%w: %s", ErrNoPackage, LiveText(string(answer[1:])))
	}
	return nil, errors.New("cannot read answer about a package: unknown form")
}
