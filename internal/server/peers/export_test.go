package peers

import (
	"testing"

	"drover/internal/frame"
)

// SealNews is what a server of the fleet of a hub says.
func SealNews(t *testing.T, h *Hub, text string) []byte {
	t.Helper()
	pair, err := h.present()
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := pair.Seal(frame.News, h.cfg.Now(), frame.Nonce{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
