package peers

// SealNews is what a server of the fleet of a hub says.
func SealNews(h *Hub, text string) []byte { return h.seal(newsKind, nil, []byte(text)) }
