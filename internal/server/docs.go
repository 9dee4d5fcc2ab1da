package server

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5/static"

	"github.com/coordsvc/coordsvc/api/openapi"
)

// The documentation of the API: the OpenAPI document, and Swagger UI to read it
// and try it with. All of it is in the program: a page that an operator opens must
// not fetch scripts from strangers.

//go:embed docs/index.html
var docsIndex []byte

//go:embed docs/start.js
var docsStart []byte

// docsPolicy lets the page load nothing, and call nothing, but this server. Swagger
// UI sets styles from its script.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsFiles are the files of Swagger UI that the page needs.
var docsFiles = []string{"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"}

// docsRoutes are the pages of the documentation.
func docsRoutes() []*route {
	pages := []*route{
		page("/openapi.json", jsonContentType, openapi.JSON),
		page("/docs", "text/html; charset=utf-8", docsIndex),
		page("/docs/start.js", "text/javascript; charset=utf-8", docsStart),
	}
	for _, name := range docsFiles {
		kind := mime.TypeByExtension(path.Ext(name))
		if text, err := static.FS.ReadFile(name + ".gz"); err == nil {
			pages = append(pages, compressedPage("/docs/"+name, kind, text))
		} else if text, err := static.FS.ReadFile(name); err == nil {
			pages = append(pages, page("/docs/"+name, kind, text))
		}
	}
	return pages
}

func page(at, contentType string, text []byte) *route {
	return &route{path: at, method: http.MethodGet, page: func(w http.ResponseWriter, _ *http.Request) {
		writePage(w, contentType, text)
	}}
}

// compressedPage is a page that is kept as gzip, which is how browsers take it. Who does
// not gets it unpacked, which is done once: a megabyte for each stranger who asks would
// be memory without bound.
func compressedPage(at, contentType string, compressed []byte) *route {
	unpacked := sync.OnceValue(func() []byte {
		var text bytes.Buffer
		if reader, err := gzip.NewReader(bytes.NewReader(compressed)); err == nil {
			_, _ = io.Copy(&text, reader) // from the program itself: it is whole
		}
		return text.Bytes()
	})
	return &route{path: at, method: http.MethodGet, page: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			writePage(w, contentType, compressed)
			return
		}
		writePage(w, contentType, unpacked())
	}}
}

func writePage(w http.ResponseWriter, contentType string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Content-Security-Policy", docsPolicy)
	_, _ = w.Write(text) // an error means that the client has left
}
