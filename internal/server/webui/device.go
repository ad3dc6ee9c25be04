package webui

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"

	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/words"
)

// device is the action in the audit log of what people answer about command lines.
const device = "console.device"

// devicePage asks for the letters that a command line shows.
func (v *view) devicePage(context.Context) error {
	v.render(http.StatusOK, "device", map[string]any{"Name": ""}) // an empty map shows nothing
	return nil
}

// deviceShown shows which command line waits with some letters.
func (v *view) deviceShown(ctx context.Context) error {
	d, err := v.deviceOf(ctx)
	if err != nil || d.Hash == "" {
		return err
	}
	v.render(http.StatusOK, "device", map[string]any{
		"Name": d.Name, "Address": d.Remote, "Until": d.Expires, "Code": v.r.PostFormValue("code"),
		"Shown":   deviceFingerprint(d),
		"Confirm": words.Device.Confirm.In(v.lang, "user", v.who.User),
	})
	return nil
}

// deviceOf returns the device whose code is in the form. If no device with that code waits, deviceOf answers the call
// and returns an empty device.
func (v *view) deviceOf(ctx context.Context) (store.Device, error) {
	if v.codes.Wait(v.who.User, v.Now()) > 0 {
		v.recordCall(ctx, store.AuditRow{
			Action: device, Code: http.StatusTooManyRequests, Message: "too many codes",
		})
		v.noDevice(http.StatusTooManyRequests, words.Device.TooMany)
		return store.Device{}, nil
	}
	d, err := v.Devices.FindDevice(ctx, access.HashCode(v.r.PostFormValue("code")))
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !v.Now().Before(d.Expires):
		v.codes.Note(v.who.User, v.Now())
		v.recordCall(ctx, store.AuditRow{
			Action: device, Code: http.StatusNotFound, Message: "no command line waits with this code",
		})
		v.noDevice(http.StatusNotFound, words.Device.Wrong)
		return store.Device{}, nil
	case err != nil:
		return store.Device{}, err
	}
	return d, nil
}

func (v *view) noDevice(status int, why words.Text) {
	v.refused = v.refusedForm(status, why.In(v.lang))
	v.render(http.StatusOK, "device", map[string]any{"Name": ""}) // an empty map shows nothing
}

// deviceFingerprint identifies what a page has shown of a device, so that the answer counts for nothing else.
func deviceFingerprint(d store.Device) string {
	return access.HashToken(strings.Join([]string{d.Hash, d.Name, d.Remote, d.Expires.UTC().String()}, "\x00"))
}

// deviceAnswer signs in the command line that the page has shown, or rejects it.
func (v *view) deviceAnswer(ctx context.Context) error {
	d, err := v.deviceOf(ctx)
	if err != nil || d.Hash == "" {
		return err
	}
	row := store.AuditRow{Action: device, Target: audit.Clip(d.Name+" "+d.Remote, 200), Targets: 1, Allowed: true}
	if v.r.PostFormValue("shown") != deviceFingerprint(d) {
		row.Allowed, row.Code, row.Message = false, http.StatusConflict, "the page has shown another command line"
		v.recordCall(ctx, row)
		v.noDevice(http.StatusConflict, words.Device.Wrong)
		return nil
	}
	done := words.Device.Done
	if v.r.PostFormValue("answer") == "confirm" {
		err = v.signInDevice(ctx, d)
	} else {
		done, row.Message = words.Device.Rejected, "rejected by the person"
		err = v.Devices.RemoveDevice(ctx, d.Hash)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // answered twice at once
		v.noDevice(http.StatusNotFound, words.Device.Wrong)
		return nil
	case err != nil:
		return err
	}
	v.recordCall(ctx, row)
	v.render(http.StatusOK, "device", map[string]any{"Done": done.In(v.lang)})
	return nil
}

// signInDevice makes the token of a device valid.
func (v *view) signInDevice(ctx context.Context, d store.Device) error {
	if err := v.makeRoom(ctx, v.who.User, store.CLIToken); err != nil {
		return err
	}
	now := v.Now()
	return v.Devices.SignInDevice(ctx, store.Token{
		ID: strings.ToLower(rand.Text()[:8]), Kind: store.CLIToken, User: v.who.User, Hash: d.Hash, Created: now,
		Expires: now.Add(sessionTime), Note: audit.Clip(d.Remote+" "+d.Name, 200), Via: v.who.Via,
	})
}

// recordCall stores the audit row of a call of the person, which has the action.
func (v *view) recordCall(ctx context.Context, row store.AuditRow) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edge.AuditTime)
	defer cancel()
	row.At, row.App, row.User, row.Remote = v.Now(), v.who.App, v.who.User, audit.Remote(v.r)
	row.RequestID = audit.RequestID("")
	var err error
	if row.Allowed {
		err = v.Audit.PutAudit(ctx, row)
	} else {
		err = v.Audit.PutDenial(ctx, v.who.App, row)
	}
	if err != nil {
		v.Log.Error("lost audit row", "endpoint", row.Action, "error", err)
	}
}

// makeRoom ends the oldest tokens of a kind if a user has as many as allowed.
func (h *Handler) makeRoom(ctx context.Context, user string, kind store.TokenKind) error {
	all, err := h.Tokens.ListTokens(ctx, user)
	if err != nil {
		return err
	}
	have := 0
	for _, t := range slices.Backward(all) { // the newest first
		if t.Kind != kind {
			continue
		}
		if have++; have < maxSessions {
			continue
		}
		// What was made with the token stays, as after a sign-out.
		if _, err := h.Tokens.TakeToken(ctx, t.Hash, nil); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}
