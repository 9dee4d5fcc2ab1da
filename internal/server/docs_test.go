package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocsPageIsWhole: everything that the page names is served, from here alone.
func TestDocsPageIsWhole(t *testing.T) {
	r := start(t, &fakeService{})
	page := r.do(t, "GET", "/docs", "")
	require.Equal(t, 200, page.status)
	require.Contains(t, page.header.Get("Content-Type"), "text/html")
	require.Contains(t, page.header.Get("Content-Security-Policy"), "script-src 'self'")
	require.NotContains(t, string(page.body), "://", "nothing comes from elsewhere")

	names := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(page.body, -1)
	require.Len(t, names, 5)
	for _, name := range names {
		got := r.do(t, "GET", "/"+string(name[1]), "", "Accept-Encoding", "gzip")
		require.Equal(t, 200, got.status, "%s", name[1])
		plain := r.do(t, "GET", "/"+string(name[1]), "", "Accept-Encoding", "identity")
		require.Empty(t, plain.header.Get("Content-Encoding"))
		if got.header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(bytes.NewReader(got.body))
			require.NoError(t, err)
			text, err := io.ReadAll(unpacked)
			require.NoError(t, err)
			require.Equal(t, len(text), len(plain.body))
		}
	}
	script := r.do(t, "GET", "/docs/swagger-ui-bundle.js", "")
	require.True(t, strings.Contains(string(script.body), "SwaggerUIBundle"))
	require.Equal(t, 404, r.do(t, "GET", "/docs/other.js", "").status)
	require.Equal(t, 405, r.do(t, "POST", "/docs", "").status)
}

func TestDocsCanBeSwitchedOff(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.Docs = false })
	for _, path := range []string{"/docs", "/docs/start.js", "/openapi.json"} {
		require.Equal(t, 404, r.do(t, "GET", path, "").status, path)
	}
}

// TestPagesAreUnpackedOnce: strangers may ask for them as often as they like.
func TestPagesAreUnpackedOnce(t *testing.T) {
	packed := 0
	for _, r := range docsRoutes() {
		var first, second lastWrite
		for _, w := range []*lastWrite{&first, &second} {
			w.header = http.Header{}
			r.page(w, httptest.NewRequest(http.MethodGet, r.path, http.NoBody))
		}
		require.NotEmpty(t, first.text, r.path)
		require.Same(t, &first.text[0], &second.text[0], r.path)
		if first.header.Get("Vary") != "" {
			packed++
		}
	}
	require.Positive(t, packed)
}

// lastWrite is an http.ResponseWriter that keeps what was written last, not a copy.
type lastWrite struct {
	header http.Header
	text   []byte
}

func (w *lastWrite) Header() http.Header { return w.header }
func (w *lastWrite) WriteHeader(int)     {}

func (w *lastWrite) Write(p []byte) (int, error) {
	w.text = p
	return len(p), nil
}
