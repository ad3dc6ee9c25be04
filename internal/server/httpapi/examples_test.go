package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"drover/internal/server/store"
	"drover/internal/test/examples"
	"drover/internal/test/openapi"
)

// handlerClient carries requests to a handler without a network.
type handlerClient struct{ handler http.Handler }

func (c handlerClient) Do(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	c.handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// TestExamples plays the cases of api/examples that need no process.
func TestExamples(t *testing.T) {
	w := newWorld(t)
	w.agents = []store.Agent{{Key: "UHERE", Cloud: 0, IP: "127.0.0.1"}}
	cases, err := examples.Load("../../../api/examples")
	if err != nil {
		t.Fatal(err)
	}
	p := examples.NewPlayer(openapi.NewClient(t, handlerClient{w.handler}), "http://drover.example", cases,
		map[string]string{
			"${app_code}": appCode, "${app_secret}": appSecret, "${user}": "root", "${dir}": "/tmp",
		})
	for _, c := range cases {
		if !c.Request.Live {
			t.Run(c.Name, func(t *testing.T) { p.Play(t, c.Name) })
		}
	}
	if p.Played() < 30 {
		t.Errorf("only %d cases were played", p.Played())
	}
}
