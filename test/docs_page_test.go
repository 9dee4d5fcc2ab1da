package test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/kafkatest"
)

// pressExecute does what a person does on the page of an operation: press Execute.
// The form is filled with the examples of the OpenAPI document. The page may not be
// listening yet, so it is pressed until there is an answer.
const pressExecute = `
const press = setInterval(() => {
  if (document.querySelector(".live-responses-table")) { clearInterval(press); return; }
  const button = document.querySelector(".execute");
  if (button) { button.click(); }
}, 500);`

// TestDocsPage opens /docs in a browser and makes a lookup from it. It runs where
// COORDSVC_TEST_CHROMIUM names the browser (make test-docs-page).
func TestDocsPage(t *testing.T) {
	browser := os.Getenv("COORDSVC_TEST_CHROMIUM")
	if browser == "" {
		t.Skip("COORDSVC_TEST_CHROMIUM names no browser (make test-docs-page)")
	}
	fake := kafkatest.Fake(t, 3)
	service := serve(t, fake.ListenAddrs())
	service.ready(t)

	// The browser comes by a proxy that adds one script to the page. All else is
	// as it is served, its content policy too.
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: service.addresses["REST"]})
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.URL.Path != "/docs" {
			return nil
		}
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		page = bytes.Replace(page, []byte("</body>"), []byte(`<script src="docs/press.js"></script></body>`), 1)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
		resp.Header.Set("Content-Length", strconv.Itoa(len(page)))
		return nil
	}
	web := http.NewServeMux()
	web.Handle("/", proxy)
	web.HandleFunc("/docs/press.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, pressExecute)
	})
	origin := httptest.NewServer(web)
	defer origin.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=30000", "--dump-dom",
		origin.URL+"/docs#/CoordinatorService/CoordinatorService_FindCoordinators")
	var log bytes.Buffer
	cmd.Stderr = &log
	dom, err := cmd.Output()
	require.NoError(t, err, "%s", log.String())
	page := string(dom)
	_, answer, ok := strings.Cut(page, "live-responses-table")
	require.True(t, ok, "Execute shows no answer; the page has %d bytes", len(page))
	for _, want := range []string{">200<", "answeredBy", "nodeId", "payments"} {
		require.Contains(t, answer, want)
	}
}
