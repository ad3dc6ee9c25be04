// Package docs holds the documents of drover, and says how the generated ones are made.
package docs

//go:generate sh -c "go run drover/internal/statesdoc > states.md"
