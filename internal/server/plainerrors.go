package server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// plainErrorListener makes JSON of the few errors that net/http writes itself,
// as plain text, before there is a request that a handler could answer: a path
// with a stray percent sign, headers over the limit, no Host. A person who looks
// up the group `100%` by hand should read what to write instead.
type plainErrorListener struct{ net.Listener }

func (l plainErrorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &plainErrorConn{tcp}, nil
	}
	return c, nil
}

// plainErrorConn keeps the methods of a TCPConn that net/http looks for.
type plainErrorConn struct{ *net.TCPConn }

// plainErrorHeaders is what follows the status line of such an error and of
// nothing else: answers of handlers have other headers in between.
const plainErrorHeaders = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

func (c *plainErrorConn) Write(p []byte) (int, error) {
	statusLine, rest, _ := bytes.Cut(p, []byte("\r\n"))
	text, isPlainError := bytes.CutPrefix(rest, []byte(plainErrorHeaders))
	if !isPlainError {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(asJSONError(string(statusLine), string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// asJSONError is the whole answer with a JSON body. A status line is
// `HTTP/1.1 400 Bad Request`, followed by `: reason` at times.
func asJSONError(statusLine, text string) []byte {
	fields := strings.Fields(statusLine)
	code := http.StatusBadRequest
	if len(fields) > 1 {
		if n, err := strconv.Atoi(fields[1]); err == nil {
			code = n
		}
	}
	r := refuse(code, codes.InvalidArgument, "MALFORMED_REQUEST",
		"this is no HTTP request that can be read (%s); if it holds a key, a percent sign that is meant as itself is written %%25, and a space %%20", clip(text))
	switch code {
	case http.StatusRequestHeaderFieldsTooLarge:
		r = refuse(code, codes.ResourceExhausted, "HEADERS_TOO_LARGE",
			"the request line and headers are over the limit of %d bytes: POST the keys to /v1/coordinators:find", maxHeaderBytes)
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		r = refuse(code, codes.Unimplemented, "UNSUPPORTED_HTTP", "%s", clip(text))
	}
	body := statusJSON(r.status)
	return append(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		code, http.StatusText(code), jsonContentType, len(body)), body...)
}
