package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHealthcheck(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/livez":
			_, _ = w.Write([]byte(`{"status":"live"}` + "\n"))
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"not ready"}` + "\n"))
		}
	}))
	t.Cleanup(admin.Close)
	address := admin.Listener.Addr().String()

	require.Equal(t, outcome{exitOK, `{"status":"live"}` + "\n", ""}, coordsvc(t, "healthcheck", "--admin-address", address))
	require.Equal(t, outcome{exitOK, `{"status":"live"}` + "\n", ""}, call{
		args: []string{"healthcheck"},
		env:  []string{"COORDSVC_ADMIN_ADDRESS=" + address, "http_proxy=http://127.0.0.1:1"},
	}.run(t))
	require.Equal(t, outcome{exitFailed, "", "coordsvc: http://" + address + `/readyz answered 503 Service Unavailable: {"status":"not ready"}` + "\n"},
		coordsvc(t, "healthcheck", "--ready", "--admin-address", address))
}

func TestHealthcheckOfSomethingElse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = conn.Write([]byte("HTTP/1.1 503 \x1b[31mred\r\nContent-Length: 4\r\n\r\n\x1b[0m"))
	}()
	address := listener.Addr().String()
	require.Equal(t, outcome{exitFailed, "", "coordsvc: http://" + address + `/livez answered 503 \x1b[31mred: \x1b[0m` + "\n"},
		coordsvc(t, "healthcheck", "--admin-address", address))
}

func TestHealthcheckOfNothing(t *testing.T) {
	got := coordsvc(t, "healthcheck", "--admin-address=127.0.0.1:1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "coordsvc: the service does not answer: ")
	require.Contains(t, got.err, "127.0.0.1:1")
	require.Contains(t, got.err, "see whether it runs, and whether admin.address (--admin-address) is the one it was started with")
}

func TestHealthcheckDoesNotWaitForEver(t *testing.T) {
	done := make(chan struct{})
	admin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(admin.Close)
	t.Cleanup(func() { close(done) })
	began := time.Now()
	got := coordsvc(t, "healthcheck", "--timeout=50ms", "--admin-address", admin.Listener.Addr().String())
	require.Equal(t, exitFailed, got.code)
	require.Less(t, time.Since(began), 3*time.Second)
}

func TestLocalAddress(t *testing.T) {
	for listen, want := range map[string]string{
		":8081": "127.0.0.1:8081", "0.0.0.0:8081": "127.0.0.1:8081", "[::]:8081": "[::1]:8081", "10.0.0.1:80": "10.0.0.1:80", "localhost:1": "localhost:1",
	} {
		got, err := localAddress(listen)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
