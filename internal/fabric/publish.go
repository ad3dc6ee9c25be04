package fabric

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Publish sends data to all subscribers of the subject, and does not learn whether there are any. It is non-blocking;
// it fails with ErrNotConnected without a link, and with ErrTooLarge.
func (c *Conn) Publish(subject string, data []byte) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	switch err := c.nc.Publish(subject, data); {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return ErrNotConnected
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(data), c.nc.MaxPayload())
	default:
		return fmt.Errorf("cannot publish: %w", err)
	}
}
