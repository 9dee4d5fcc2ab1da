package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/coordsvc/coordsvc/internal/socket"
)

// plainErrorListener makes JSON of the few errors that net/http writes itself,
// as plain text or with no body, before there is a request that a handler could
// answer: a path with a stray percent sign, headers over the limit, no Host. A person
// who looks up the group `100%` by hand should read what to write instead.
//
// It stands outside of TLS, where the text can be read. net/http does not know
// then that there is TLS: it speaks HTTP/1.1 only, and peerOf finds the state of
// the connection by withTLSConn.
type plainErrorListener struct {
	net.Listener
	tls     *tls.Config                   // nil: plain HTTP
	refused func(r *refusal, peer string) // is told of each
	logger  *slog.Logger
}

func (l plainErrorListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*socket.Conn)
	switch {
	case l.tls != nil:
		// Until net/http sets one for the first answer, this bounds the handshake;
		// reading has the deadline of the headers.
		_ = c.SetWriteDeadline(time.Now().Add(readHeaderTimeout))
		return &plainErrorTLSConn{tls.Server(c, l.tls), l.refused, l.logger}, nil
	case ok:
		return &plainErrorConn{tcp, l.refused}, nil
	default:
		return c, nil
	}
}

// plainErrorConn keeps the methods of a TCPConn that net/http looks for, as socket.Conn does.
type plainErrorConn struct {
	*socket.Conn
	refused func(r *refusal, peer string)
}

func (c *plainErrorConn) Write(p []byte) (int, error) {
	return writeWithJSONErrors(c.Conn, p, c.refused)
}

// plainErrorTLSConn is the same around TLS.
type plainErrorTLSConn struct {
	*tls.Conn
	refused func(r *refusal, peer string)
	logger  *slog.Logger
}

func (c *plainErrorTLSConn) Write(p []byte) (int, error) {
	return writeWithJSONErrors(c.Conn, p, c.refused)
}

// Read answers who speaks HTTP to the port of HTTPS. To net/http each failed handshake
// is the end of the connection: it would answer any other error with 400, which nobody
// gets to read and which would be logged and counted.
func (c *plainErrorTLSConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil || c.ConnectionState().HandshakeComplete {
		return n, err
	}
	logHandshake(c.logger, "REST", c, err)
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) && notTLS.Conn != nil && isHTTP(notTLS.RecordHeader[:]) {
		r := refuse(http.StatusBadRequest, codes.InvalidArgument, "TLS_REQUIRED", "this port speaks HTTPS: write https:// for http://")
		c.refused(r, c.RemoteAddr().String())
		_, _ = notTLS.Conn.Write(jsonError(r))
	}
	return n, io.EOF
}

// isHTTP reports whether the first five bytes of a connection are those of a request.
func isHTTP(start []byte) bool {
	switch string(start) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

type tlsConnKey struct{}

// withTLSConn lets handlers find the TLS connection that a request came by.
func withTLSConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*plainErrorTLSConn); ok {
		return context.WithValue(ctx, tlsConnKey{}, c.Conn)
	}
	return ctx
}

// plainErrorHeaders is what follows the status line of such an error and of
// nothing else: answers of handlers have other headers in between.
const plainErrorHeaders = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// isExpectationFailed reports whether that is the status line of net/http's answer,
// without a body, to an Expect header that it does not know. No handler answers 417.
func isExpectationFailed(statusLine []byte) bool {
	return string(statusLine) == "HTTP/1.1 417 Expectation Failed" || string(statusLine) == "HTTP/1.0 417 Expectation Failed"
}

// writeWithJSONErrors may be given the middle of an answer, with text of the caller in
// it: but no line's end, which JSON escapes.
func writeWithJSONErrors(c net.Conn, p []byte, refused func(r *refusal, peer string)) (int, error) {
	statusLine, rest, isHead := bytes.Cut(p, []byte("\r\n"))
	text, isPlainError := bytes.CutPrefix(rest, []byte(plainErrorHeaders))
	if !isHead || !isPlainError && !isExpectationFailed(statusLine) {
		return c.Write(p)
	}
	r := refusalOf(string(statusLine), string(text))
	refused(r, c.RemoteAddr().String())
	if _, err := c.Write(jsonError(r)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusalOf says in our words what net/http has refused. A status line is
// `HTTP/1.1 400 Bad Request`, followed by `: reason` at times.
func refusalOf(statusLine, text string) *refusal {
	fields := strings.Fields(statusLine)
	code := http.StatusBadRequest
	if len(fields) > 1 {
		if n, err := strconv.Atoi(fields[1]); err == nil {
			code = n
		}
	}
	switch code {
	case http.StatusRequestHeaderFieldsTooLarge:
		return refuse(code, codes.ResourceExhausted, "HEADERS_TOO_LARGE",
			"the request line and headers are over the limit of %d bytes: POST the keys to /v1/coordinators:find", maxHeaderBytes)
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return refuse(code, codes.Unimplemented, "UNSUPPORTED_HTTP", "%s", clip(text))
	case http.StatusExpectationFailed:
		return refuse(code, codes.Unimplemented, "UNSUPPORTED_HTTP", "the header Expect can be 100-continue only")
	default:
		return refuse(code, codes.InvalidArgument, "MALFORMED_REQUEST",
			"this is no HTTP request that can be read (%s); if it holds a key, a percent sign that is meant as itself is written %%25, and a space %%20", clip(text))
	}
}

// jsonError is the answer as it goes over the wire.
func jsonError(r *refusal) []byte {
	body := statusJSON(r.status)
	return append(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		r.httpStatus, http.StatusText(r.httpStatus), jsonContentType, len(body)), body...)
}
