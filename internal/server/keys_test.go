package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// awkwardKeys are keys that Kafka takes and web servers trip over.
var awkwardKeys = []string{
	"", "orders", " ", "a b", " a ", "a+b", "+", "a\tb", "a\nb", "a\r\nb", "\x00", "a\x00b", "\x7f", "\u0085",
	"/", "//", "a/b", "a//b", "/lead", "trail/", "a/../b", "./a", "../../etc/passwd",
	".", "..", "...", "%", "100%", "%2F", "%2f", "%252F", "a%2Fb", "%zz", "%00", "%E2%82", "%ff",
	"a:b", ":", "x:find", ":find", "orders:nT3i4OXyR0mr0my1RZx9pQ:0", "coordinators:find",
	"?", "a?b=c", "#", "a#b", "a?b#c", "&", "a&b=c", "=", ";", "a;b", ",", "a,b", "\"", "'", `\`, `\u0041`,
	"{key}", "{key=**}", "*", "**", "[0]", "$metadata", "@", "~", "|", "^", "`", "<script>alert(1)</script>",
	`{"keys":["x"]}`, `"]}`, "null", "true", "0", "GROUP", "v1", "http://a/b", "mailto:a@b", "\\\\host\\share",
	"ünï", "日本語", "😀", "👩‍👩‍👧", "e\u0301", "\u202e\u200b\ufeff", "\U0010ffff", "\ufffd",
	strings.Repeat("k", 32767), strings.Repeat("/", 32767), strings.Repeat("語", 10922), strings.Repeat("..", 500),
}

type form struct {
	name    string
	request func(key string) (method, target, body string)
}

// forms are the ways to ask REST for one key.
var forms = []form{
	{"path", func(key string) (string, string, string) {
		return "GET", "/v1/coordinators/SHARE/" + url.PathEscape(key), ""
	}},
	{"path, everything encoded", func(key string) (string, string, string) {
		return "GET", "/v1/coordinators/SHARE/" + percentEncode(key), ""
	}},
	{"query", func(key string) (string, string, string) {
		return "GET", "/v1/coordinator?keyType=SHARE&key=" + url.QueryEscape(key), ""
	}},
	{"query, everything encoded", func(key string) (string, string, string) {
		return "GET", "/v1/coordinator?key_type=share&key=" + percentEncode(key), ""
	}},
	{"query of many", func(key string) (string, string, string) {
		return "GET", "/v1/coordinators?keyType=SHARE&keys=" + url.QueryEscape(key), ""
	}},
	{"body", func(key string) (string, string, string) {
		body, _ := json.Marshal(map[string]any{"keyType": "share", "keys": []string{key}})
		return "POST", "/v1/coordinators:find", string(body)
	}},
}

// pathBarely encodes no more than what ends a path or a request line. Browsers and
// net/http encode more than they are given; curl sends it like this.
func pathBarely(key string) (method, target, body string) {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c == 0x7f || strings.IndexByte("/%?#", c) >= 0 {
			b.WriteString(percentEncode(key[i : i+1]))
		} else {
			b.WriteByte(c)
		}
	}
	return "GET", "/v1/coordinators/SHARE/" + b.String(), ""
}

func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + string("0123456789ABCDEF"[s[i]>>4]) + string("0123456789abcdef"[s[i]&15]))
	}
	return b.String()
}

// keysOf is the key type and the keys that the service saw.
func keysOf(t testing.TB, req any) (coordsvcv1.KeyType, []string) {
	t.Helper()
	switch r := req.(type) {
	case *coordsvcv1.FindCoordinatorsRequest:
		return r.GetKeyType(), r.GetKeys()
	case *coordsvcv1.GetCoordinatorRequest:
		return r.GetKeyType(), []string{r.GetKey()}
	default:
		t.Fatalf("the service saw %T", req)
		return 0, nil
	}
}

func TestAwkwardKeysArriveByteForByte(t *testing.T) {
	require.GreaterOrEqual(t, len(awkwardKeys), 40)
	svc := &fakeService{}
	r := start(t, svc)
	for _, key := range awkwardKeys {
		for _, form := range forms {
			method, target, body := form.request(key)
			got := r.do(t, method, target, body, "Content-Type", asJSON)
			require.Equal(t, 200, got.status, "%s %q: %s", form.name, clip(key), got.body)
			keyType, keys := keysOf(t, svc.lastRequest())
			require.Equal(t, coordsvcv1.KeyType_SHARE, keyType)
			require.Equal(t, []string{key}, keys, "%s", form.name)

			// And back, in the answer.
			v := got.json(t)
			if list, ok := v["results"].([]any); ok {
				v = map[string]any{"result": list[0]}
			}
			require.Equal(t, key, v["result"].(map[string]any)["key"], "%s", form.name)
		}
	}
}

func TestManyKeysInTheQueryKeepOrderAndDuplicates(t *testing.T) {
	svc := &fakeService{}
	r := start(t, svc)
	got := r.do(t, "GET", "/v1/coordinators?keys=b&keyType=GROUP&keys=a&keys=&keys=b&keys=x,y", "")
	require.Equal(t, 200, got.status)
	_, keys := keysOf(t, svc.lastRequest())
	require.Equal(t, []string{"b", "a", "", "b", "x,y"}, keys)
}

// handlerOf is the REST handler of svc without a listener.
func handlerOf(t testing.TB, svc *fakeService) http.Handler {
	t.Helper()
	cfg := DefaultConfig()
	cfg.MaxTimeout = time.Minute
	s, err := New(cfg, svc, func() bool { return true }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(s.drain.endStreams)
	return s.rest.Handler
}

// send has net/http's own parser read the request, as from a connection; ok is
// false where it would refuse it.
func send(t testing.TB, h http.Handler, method, target, body string) (w *httptest.ResponseRecorder, ok bool) {
	t.Helper()
	var raw bytes.Buffer
	raw.WriteString(method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
	r, err := http.ReadRequest(bufio.NewReader(&raw))
	if err != nil {
		return nil, false
	}
	if body != "" {
		r.Body, r.ContentLength = newCheckedBody([]byte(body)), int64(len(body))
		r.Header.Set("Content-Type", asJSON)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w, true
}

// FuzzPathToKey: every key comes back from every form as it went in; what is no
// UTF-8 is refused.
func FuzzPathToKey(f *testing.F) {
	for _, key := range awkwardKeys {
		f.Add(key)
	}
	f.Add("\xff")
	f.Add("a\xc0\xafb") // an overlong slash
	svc := &fakeService{}
	h := handlerOf(f, svc)
	f.Fuzz(func(t *testing.T, key string) {
		for _, form := range append(forms, form{"path, barely encoded", pathBarely}) {
			method, target, body := form.request(key)
			if body != "" && !utf8.ValidString(key) {
				continue // json.Marshal has replaced the bytes
			}
			svc.saw(nil)
			w, ok := send(t, h, method, target, body)
			if !ok {
				t.Fatalf("%s: net/http refuses %q", form.name, target)
			}
			if !utf8.ValidString(key) {
				require.Equal(t, 400, w.Code, form.name)
				require.Nil(t, svc.lastRequest())
				continue
			}
			require.Equal(t, 200, w.Code, "%s: %s", form.name, w.Body)
			_, keys := keysOf(t, svc.lastRequest())
			require.Equal(t, []string{key}, keys, form.name)
		}
	})
}

// FuzzREST: whatever is sent, the answer is JSON, and is no fault of ours.
func FuzzREST(f *testing.F) {
	f.Add("GET", "/v1/coordinators/GROUP/a", "")
	f.Add("GET", "/v1/coordinators?keys=a&keyType=1&timeout=1s", "")
	f.Add("POST", "/v1/coordinators:find", `{"keyType":"group","keys":["a"],"timeout":"1s"}`)
	f.Add("POST", "/v1/coordinators:find", `{"keyType":"\u0067roup"}`)
	f.Add("HEAD", "/v1/coordinator?key=%ff", "")
	f.Add("OPTIONS", "*", "")
	h := handlerOf(f, &fakeService{})
	f.Fuzz(func(t *testing.T, method, target, body string) {
		w, ok := send(t, h, method, target, body)
		if !ok {
			return
		}
		require.Less(t, w.Code, 500, "%s", w.Body)
		if w.Code == http.StatusNoContent {
			return
		}
		require.Equal(t, asJSON, w.Header().Get("Content-Type"))
		require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
	})
}
