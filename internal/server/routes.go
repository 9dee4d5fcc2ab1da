package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// route is one path of the REST API. Each path has one method (and HEAD where
// that is GET).
type route struct {
	// path is the path as in the OpenAPI document. A segment {name} matches any
	// one segment, the empty one too, and is the field name of the request.
	path   string
	method string

	// request is the message that query or body fill; nil where page answers.
	request protoreflect.MessageDescriptor
	// required are query names that must be there, so that one forgotten is not
	// taken for empty. (The empty key is legal.)
	required []protoreflect.Name
	// gatewayPath is the path that the gateway is asked for instead, with what
	// was in the path as query values. The gateway routes on its own reading of
	// the path; this way no key is ever read twice.
	gatewayPath string

	page http.HandlerFunc

	segments []string
	params   params
}

// routes is the REST API, with pages of documentation or without.
// TestRoutesAreTheOpenAPI compares it with the document.
func routes(docs bool) []*route {
	find := (*coordsvcv1.FindCoordinatorsRequest)(nil).ProtoReflect().Descriptor()
	get := (*coordsvcv1.GetCoordinatorRequest)(nil).ProtoReflect().Descriptor()
	list := (*coordsvcv1.ListBrokersRequest)(nil).ProtoReflect().Descriptor()
	table := []*route{
		{path: "/v1/coordinators:find", method: http.MethodPost, request: find},
		{path: "/v1/coordinators", method: http.MethodGet, request: find},
		{path: "/v1/coordinators/{key_type}/{key}", method: http.MethodGet, request: get, gatewayPath: "/v1/coordinator"},
		{path: "/v1/coordinator", method: http.MethodGet, request: get, required: []protoreflect.Name{"key"}},
		{path: "/v1/brokers", method: http.MethodGet, request: list},
	}
	if docs {
		table = append(table, docsRoutes()...)
	}
	for _, r := range table {
		r.segments = strings.Split(r.path[1:], "/")
		r.params = paramsOf(r)
		if r.gatewayPath == "" {
			r.gatewayPath = r.path
		}
	}
	return table
}

// allow is the value of the Allow header.
func (r *route) allow() string {
	if r.method == http.MethodGet {
		return "GET, HEAD, OPTIONS"
	}
	return r.method + ", OPTIONS"
}

// pathAsSent is the path before any decoding. (URL.EscapedPath is it only where
// everything that should be encoded is: of /a|b%2Fc it makes /a%7Cb/c.)
func pathAsSent(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// match finds the route of a path as it was sent: %2F inside a segment is part of
// that segment, `.` and `..` are segments like any other, and no slash is merged.
func match(table []*route, path string) (*route, map[string]string, *refusal) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, raw := range segments {
		text, err := url.PathUnescape(raw)
		if err != nil { // net/http has refused it before
			return nil, nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_PATH", "the path: %s", err)
		}
		if !utf8.ValidString(text) {
			return nil, nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_PATH",
				"segment %d of the path is not UTF-8: percent-encode the bytes of UTF-8 text", i+1)
		}
		segments[i] = text
	}
	for _, r := range table {
		if values, ok := r.matchSegments(segments); ok {
			return r, values, nil
		}
	}
	return nil, nil, notFound(table, path, segments)
}

func (r *route) matchSegments(segments []string) (values map[string]string, ok bool) {
	if len(segments) != len(r.segments) {
		return nil, false
	}
	for i, want := range r.segments {
		if name, isParam := pathParam(want); isParam {
			if values == nil {
				values = make(map[string]string, 2)
			}
			values[name] = segments[i]
		} else if segments[i] != want {
			return nil, false
		}
	}
	return values, true
}

func pathParam(segment string) (name string, ok bool) {
	if !strings.HasPrefix(segment, "{") {
		return "", false
	}
	return strings.Trim(segment, "{}"), true
}

func notFound(table []*route, path string, segments []string) *refusal {
	hint := "look at the documentation of coordsvc"
	if slices.ContainsFunc(table, func(r *route) bool { return r.page != nil }) {
		hint = "what there is stands in /openapi.json, for people at /docs"
	}
	hint += "; health and metrics are at the admin port (setting admin.address)"
	if len(segments) > 2 && slices.Equal(segments[:2], []string{"v1", "coordinators"}) {
		hint = "a key is looked up at /v1/coordinators/{key type}/{key}, where the key is one segment (write / as %2F), " +
			"or at /v1/coordinator?keyType=…&key=…"
	}
	return refuse(http.StatusNotFound, codes.NotFound, "NOT_FOUND", "there is nothing at %s: %s", clip(path), hint)
}

// clip keeps what a caller sent short enough to be part of a message.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
