package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// newAdmin serves the admin port: plain HTTP, so that probes work whatever the
// other ports ask of their callers.
//
//	/livez   200 while the process runs. Kafka is not its business: a broker that
//	         is down must not get healthy instances killed.
//	/readyz  200 while calls can be answered, else 503.
//
// and those of more, by path (adminPages).
func newAdmin(ready func() bool, stopping *atomic.Bool, more map[string]http.HandlerFunc) http.Handler {
	pages := map[string]http.HandlerFunc{
		"/livez": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte(`{"status":"live"}`+"\n"))
		},
		"/readyz": func(w http.ResponseWriter, _ *http.Request) {
			switch {
			case stopping.Load():
				writeJSON(w, http.StatusServiceUnavailable, []byte(`{"status":"not ready","cause":"this instance is stopping"}`+"\n"))
			case !ready():
				writeJSON(w, http.StatusServiceUnavailable, []byte(`{"status":"not ready","cause":"no Kafka broker has answered a request lately: GET /v1/brokers of the REST port says why"}`+"\n"))
			default:
				writeJSON(w, http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
			}
		},
	}
	maps.Copy(pages, more)
	there := strings.Join(slices.Sorted(maps.Keys(pages)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		page, ok := pages[r.URL.Path]
		switch {
		case !ok:
			writeRefusal(w, refuse(http.StatusNotFound, codes.NotFound, "NOT_FOUND",
				"the admin port has no page %.200q: it has %s", r.URL.Path, there))
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			writeRefusal(w, refuse(http.StatusMethodNotAllowed, codes.Unimplemented, "METHOD_NOT_ALLOWED",
				"%s is answered to GET and HEAD only, not to %.20q", r.URL.Path, r.Method))
		default:
			page(w, r)
		}
	})
}
