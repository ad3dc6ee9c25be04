package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// Limits of the sign-in of a command line.
const (
	// deviceTime is the time within which a person must confirm the sign-in.
	deviceTime = 10 * time.Minute
	// deviceInterval is the shortest time between two requests for the state, in seconds.
	deviceInterval = 2
	maxDeviceName  = 200
	maxDeviceBody  = 8 << 10
)

// DevicePath is the page of the console on which a person confirms the sign-in of a command line.
const DevicePath = "/ui/device"

// small reads the body of a caller without credentials into v. It accepts only a small body.
func small(c *call.Call, v any) error {
	if err := c.Params.Done(); err != nil {
		return err
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Response, c.Request.Body, maxDeviceBody))
	if err != nil {
		return call.DecodeProblem(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return call.DecodeProblem(err)
	}
	return call.Exact(text, reflect.TypeOf(v))
}

// rejectIfLimited rejects a call from an address that has reached a limit and must wait.
func (h *Handler) rejectIfLimited(c *call.Call, by *gate.Failures, reason string) error {
	wait := by.Wait(c.Address, h.Now())
	if wait <= 0 {
		return nil
	}
	return call.Busy(reason, int(math.Ceil(wait.Seconds())))
}

// CreateDevice begins the sign-in of a command line. It grants nothing, so only a rejection has an audit row.
func (h *Handler) CreateDevice(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := h.rejectIfLimited(c, h.devices, "too many sign-ins began at this address"); err != nil {
		return call.Reply{}, err
	}
	h.devices.Note(c.Address, h.Now())
	var req v1.DeviceRequest
	if err := small(c, &req); err != nil {
		return call.Reply{}, err
	}
	switch {
	case h.Console() == "":
		return call.Reply{}, call.Problemf(http.StatusConflict, "this server serves no console, where a person could confirm the sign-in")
	case req.Name == "":
		return call.Reply{}, call.Invalid("name", "is empty")
	case len(req.Name) > maxDeviceName:
		return call.Reply{}, call.Invalid("name", "is %d bytes long: expected at most %d", len(req.Name), maxDeviceName)
	case strings.ToValidUTF8(req.Name, "\x00") != req.Name ||
		strings.ContainsFunc(req.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return call.Reply{}, call.Invalid("name", "holds a character that cannot be shown")
	}
	token, hash := access.NewToken()
	code, codeHash := access.NewCode()
	now := h.Now()
	d := store.Device{
		Hash: hash, Code: codeHash, Name: req.Name, Remote: c.Audit.Remote, Created: now, Expires: now.Add(deviceTime),
	}
	switch err := h.Devices.CreateDevice(ctx, d); {
	case errors.Is(err, store.ErrTooManyDevices):
		return call.Reply{}, call.Busy(store.ErrTooManyDevices.Error(), 60)
	case err != nil:
		return call.Reply{}, call.Failure("begin the sign-in", err)
	}
	c.Audited = true
	return call.Reply{Status: http.StatusCreated, Body: v1.Device{
		Code: code, Path: DevicePath, Token: token, ExpiresAt: d.Expires, Interval: deviceInterval,
	}}, nil
}

// DeviceState tells a command line whether a person has signed it in. The call has no audit row: command lines repeat
// it all the time, and the sign-in itself has a row.
func (h *Handler) DeviceState(ctx context.Context, c *call.Call) (call.Reply, error) {
	c.Audited = true
	if err := h.rejectIfLimited(c, h.unknownDevices, "this address asked for too many sign-ins that do not exist"); err != nil {
		return call.Reply{}, err
	}
	var req v1.DeviceStateRequest
	if err := small(c, &req); err != nil {
		return call.Reply{}, err
	}
	hash := access.HashToken(req.Token)
	t, _, err := h.Tokens.FindToken(ctx, hash)
	if err == nil && t.Kind == store.CLIToken && t.Valid(h.Now()) {
		return call.OK(v1.DeviceState{State: v1.DeviceSignedIn, User: t.User, ExpiresAt: call.OptionalTime(t.Expires)})
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return call.Reply{}, call.Failure("read the sign-in", err)
	}
	d, err := h.Devices.FindDevice(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !h.Now().Before(d.Expires):
		h.unknownDevices.Note(c.Address, h.Now())
		return call.Reply{}, call.Problemf(http.StatusNotFound, "the person has rejected the sign-in, or its time is over")
	case err != nil:
		return call.Reply{}, call.Failure("read the sign-in", err)
	}
	return call.OK(v1.DeviceState{State: v1.DevicePending})
}
