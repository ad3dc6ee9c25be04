package client

import (
	"context"
	"net/url"

	v1 "drover/api/v1"
)

// CreateSilence withholds alarms for some time.
func (c *Client) CreateSilence(ctx context.Context, r v1.SilenceRequest) (v1.Silence, error) {
	var s v1.Silence
	err := c.do(ctx, at(v1.RouteCreateSilence), nil, r, &s)
	return s, err
}

// Silences lists the silences that have not ended, ordered by their beginnings; with ended also those that ended in the
// last 28 days.
func (c *Client) Silences(ctx context.Context, ended bool) ([]v1.Silence, error) {
	query := url.Values{}
	if ended {
		query.Set("ended", "true")
	}
	var all v1.Page[v1.Silence] // there is but one
	err := c.do(ctx, at(v1.RouteListSilences), query, nil, &all)
	return all.Items, err
}

// Silence returns one silence.
func (c *Client) Silence(ctx context.Context, id string) (v1.Silence, error) {
	var s v1.Silence
	err := c.do(ctx, at(v1.RouteGetSilence, id), nil, nil, &s)
	return s, err
}

// RemoveSilence ends a silence. The server delivers the withheld alarms that still hold.
func (c *Client) RemoveSilence(ctx context.Context, id string) (v1.Silence, error) {
	var s v1.Silence
	err := c.do(ctx, at(v1.RouteRemoveSilence, id), nil, nil, &s)
	return s, err
}
