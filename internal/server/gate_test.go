package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// openGate lets everybody in.
func openGate(t testing.TB) *gate {
	t.Helper()
	g, err := newGate(DefaultConfig())
	require.NoError(t, err)
	return g
}

const (
	ciToken  = "mF_9.B5f-4.1JqM8yT3kVw"
	opsToken = "0123456789abcdef0123456789abcdef"
)

func secretFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// demandTokens has the server ask for one of two tokens.
func demandTokens(t testing.TB) func(*Config) {
	path := secretFile(t, "tokens", "ci:"+ciToken+"\nops:"+opsToken+"\n")
	return func(c *Config) {
		c.Auth.TokenFile = path
		c.ReloadInterval = reloadOften
	}
}

// bearing is a context whose gRPC calls carry these authorization headers.
func bearing(ctx context.Context, values ...string) context.Context {
	for _, v := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

// overREST asks with these authorization headers.
func (r *running) overREST(t testing.TB, target string, authorization ...string) answer {
	t.Helper()
	c := &client{http: r.http, rest: "http://" + r.HTTPAddr().String()}
	var headers []string
	for _, v := range authorization {
		headers = append(headers, "Authorization", v)
	}
	got, err := c.get(t.Context(), target, headers...)
	require.NoError(t, err)
	return got
}

func TestTokensOnBothProtocols(t *testing.T) {
	svc := &fakeService{}
	r := start(t, svc, demandTokens(t))
	for name, c := range map[string]struct {
		authorization    []string
		cause, challenge string // "": let in
		caller           string
	}{
		"one":           {authorization: []string{"Bearer " + ciToken}, caller: "token:ci"},
		"another":       {authorization: []string{"bearer " + opsToken}, caller: "token:ops"},
		"none":          {cause: "NO_CREDENTIALS", challenge: `Bearer realm="coordsvc"`},
		"wrong":         {authorization: []string{"Bearer " + ciToken + "x"}, cause: "UNKNOWN_TOKEN", challenge: `Bearer realm="coordsvc", error="invalid_token"`},
		"other scheme":  {authorization: []string{"Basic Y2k6Y2k="}, cause: "MALFORMED_CREDENTIALS", challenge: `Bearer realm="coordsvc", error="invalid_token"`},
		"two at a time": {authorization: []string{"Bearer " + ciToken, "Bearer " + opsToken}, cause: "MALFORMED_CREDENTIALS", challenge: `Bearer realm="coordsvc", error="invalid_token"`},
	} {
		t.Run(name, func(t *testing.T) {
			svc.saw(nil)
			r.log.reset()
			_, err := r.grpc.GetCoordinator(bearing(t.Context(), c.authorization...), &coordsvcv1.GetCoordinatorRequest{Key: "a"})
			overGRPC := status.Convert(err)
			got := r.overREST(t, "/v1/coordinator?key=a", c.authorization...)
			if c.cause == "" {
				require.NoError(t, err)
				require.Equal(t, 200, got.status)
				require.NotNil(t, svc.lastRequest())
				require.Equal(t, 2, strings.Count(r.log.String(), `"caller":"`+c.caller+`"`), r.log.String())
				require.NotContains(t, r.log.String(), ciToken)
				return
			}
			require.Equal(t, 401, got.status)
			require.Equal(t, c.challenge, got.header.Get("WWW-Authenticate"))
			require.NotEmpty(t, got.header.Get("X-Request-Id"))
			overREST := requireStatus(t, got, "UNAUTHENTICATED")
			require.Equal(t, codes.Unauthenticated, overGRPC.Code())
			require.Equal(t, c.cause, errorInfoOf(overGRPC).GetMetadata()["cause"])
			require.True(t, proto.Equal(overGRPC.Proto(), overREST.Proto()), "gRPC: %v\nREST: %v", overGRPC, overREST)
			require.Nil(t, svc.lastRequest())
			require.Equal(t, 2, strings.Count(r.log.String(), `"msg":"call"`), "both refusals are logged, once each: %s", r.log)
			require.Equal(t, 2, strings.Count(r.log.String(), `"method":"/coordsvc.v1.CoordinatorService/GetCoordinator"`))
			require.Equal(t, 2, strings.Count(r.log.String(), `"cause":"`+c.cause+`"`), "by both protocols: %s", r.log)
			require.NotContains(t, r.log.String(), ciToken)
		})
	}
}

func TestTokenFileIsFollowed(t *testing.T) {
	r := start(t, &fakeService{}, demandTokens(t))
	accepts := func(token string) bool {
		return r.overREST(t, "/v1/brokers", "Bearer "+token).status == 200
	}
	require.True(t, accepts(ciToken))
	const fresh = "fresh-token-fresh-token"
	require.NoError(t, os.WriteFile(r.cfg.Auth.TokenFile, []byte("ci:"+fresh), 0o600))
	eventually(t, func() bool { return accepts(fresh) })
	require.False(t, accepts(ciToken))
	require.NoError(t, os.WriteFile(r.cfg.Auth.TokenFile, nil, 0o600)) // must not let everybody in, nor lock all out
	eventually(t, func() bool { return r.ReloadErrors()["auth.token-file"] != nil })
	require.True(t, accepts(fresh))
	require.Equal(t, 401, r.overREST(t, "/v1/brokers").status)
	require.NotContains(t, r.log.String(), fresh)
}

// A stranger's request is refused by its head: neither its body nor what is wrong
// with it is looked at.
func TestStrangersAreNotRead(t *testing.T) {
	r := start(t, &fakeService{}, demandTokens(t), func(c *Config) { c.MaxMessageBytes = 4096 })
	t.Run("REST, body over the limit", func(t *testing.T) {
		got := r.do(t, "POST", "/v1/coordinators:find", strings.Repeat("x", 100_000))
		require.Equal(t, 401, got.status)
	})
	t.Run("REST, body held back until it is asked for", func(t *testing.T) {
		c, err := net.Dial("tcp", r.HTTPAddr().String())
		require.NoError(t, err)
		defer c.Close()
		got := sendRaw(t, c, "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n")
		require.Equal(t, 401, got.status, "not 100")
	})
	t.Run("REST, wrong query", func(t *testing.T) {
		require.Equal(t, 401, r.overREST(t, "/v1/coordinators?topics=a").status)
	})
	t.Run("gRPC, no message at all", func(t *testing.T) {
		for _, c := range []struct {
			ctx  context.Context
			want codes.Code
		}{{t.Context(), codes.Unauthenticated}, {bearing(t.Context(), "Bearer "+ciToken), codes.InvalidArgument}} {
			err := r.conn.Invoke(c.ctx, coordsvcv1.CoordinatorService_GetCoordinator_FullMethodName, "\x0a\xff", new(coordsvcv1.GetCoordinatorResponse),
				grpc.ForceCodec(rawCodec{}))
			require.Equal(t, c.want, status.Code(err), "%v", err)
		}
	})
	t.Run("gRPC, message that never comes", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		stream, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			coordsvcv1.CoordinatorService_GetCoordinator_FullMethodName)
		require.NoError(t, err)
		require.Equal(t, codes.Unauthenticated, status.Code(stream.RecvMsg(new(coordsvcv1.GetCoordinatorResponse))), "answered before a message was sent")
	})
}

// rawCodec sends a string as it is.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return []byte(v.(string)), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

// What is open to everybody, and what is not, stands here.
func TestWhatIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Config)
		reflection codes.Code // without a token
		docs       int
	}{
		"as it comes":  {func(*Config) {}, codes.Unauthenticated, 200},
		"switched off": {func(c *Config) { c.Reflection, c.Docs = false, false }, codes.Unimplemented, 404},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, &fakeService{}, demandTokens(t), c.change)
			health := healthv1.NewHealthClient(r.conn)
			eventually(t, func() bool {
				h, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
				return err == nil && h.GetStatus() == healthv1.HealthCheckResponse_SERVING
			})
			watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = watch.Recv()
			require.NoError(t, err)
			reflect := func(ctx context.Context) error {
				stream, err := reflectionv1.NewServerReflectionClient(r.conn).ServerReflectionInfo(ctx)
				require.NoError(t, err)
				_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
				_, err = stream.Recv()
				return err
			}
			require.Equal(t, c.reflection, status.Code(reflect(t.Context())))
			if c.reflection == codes.Unauthenticated {
				ctx, cancel := context.WithCancel(bearing(t.Context(), "Bearer "+ciToken))
				require.NoError(t, reflect(ctx))
				cancel()
			}
			require.Equal(t, c.docs, r.overREST(t, "/openapi.json").status)
			require.Equal(t, 401, r.overREST(t, "/v1/brokers").status)
			require.Equal(t, 404, r.overREST(t, "/nothing").status)
			require.Equal(t, 204, r.do(t, "OPTIONS", "/v1/brokers", "").status)
			for _, page := range []string{"/livez", "/readyz"} {
				require.Equal(t, 200, r.doAt(t, r.AdminAddr(), "GET", page, "").status)
			}
		})
	}
}

func TestPolicyOnBothProtocols(t *testing.T) {
	policy := secretFile(t, "policy.yaml", "rules:\n  - callers: ['token:ci']\n    key-types: [GROUP]\n    prefixes: [ci-]\n  - callers: ['token:ops']\n    prefixes: ['']\n")
	svc := &fakeService{}
	r := start(t, svc, demandTokens(t), func(c *Config) { c.Auth.PolicyFile = policy })
	ci, ops := "Bearer "+ciToken, "Bearer "+opsToken

	require.Equal(t, 200, r.overREST(t, "/v1/coordinators/GROUP/ci-a", ci).status)
	require.Equal(t, 200, r.overREST(t, "/v1/coordinators/GROUP/other", ops).status)
	require.Equal(t, 200, r.overREST(t, "/v1/brokers", ci).status)
	_, err := r.grpc.FindCoordinators(bearing(t.Context(), ci), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{"ci-a", "ci-b"}})
	require.NoError(t, err)

	svc.saw(nil)
	keys := []string{"ci-a"}
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("secret-%d-%s", i, strings.Repeat("x", 1000)))
	}
	_, err = r.grpc.FindCoordinators(bearing(t.Context(), ci), &coordsvcv1.FindCoordinatorsRequest{Keys: keys})
	overGRPC := status.Convert(err)
	require.Equal(t, codes.PermissionDenied, overGRPC.Code())
	require.Less(t, proto.Size(overGRPC.Proto()), 8<<10, "it must fit into headers")
	body, err := json.Marshal(map[string]any{"keys": keys})
	require.NoError(t, err)
	got := r.do(t, "POST", "/v1/coordinators:find", string(body), "Content-Type", asJSON, "Authorization", ci)
	require.Equal(t, 403, got.status)
	require.Empty(t, got.header.Get("WWW-Authenticate"))
	overREST := requireStatus(t, got, "PERMISSION_DENIED", "200 of the 201 keys", "token:ci")
	require.Equal(t, overGRPC.Message(), overREST.Message())
	require.Len(t, overREST.Details(), len(overGRPC.Details()))
	for i, detail := range overGRPC.Details() { // decoded: the bytes of a map have no order
		require.True(t, proto.Equal(detail.(proto.Message), overREST.Details()[i].(proto.Message)))
	}
	info := errorInfoOf(overREST)
	require.Equal(t, map[string]string{"cause": "KEY_NOT_ALLOWED", "denied": "200"}, info.GetMetadata())
	named := violationsOf(overREST)
	require.Len(t, named, maxDeniedKeys)
	require.Equal(t, "keys[1]", named[0].GetField())
	require.Nil(t, svc.lastRequest(), "no key was asked for")

	got = r.overREST(t, "/v1/coordinators/TRANSACTION/ci-a", ci)
	require.Equal(t, 403, got.status)
	require.Equal(t, "key", violationsOf(requireStatus(t, got, "PERMISSION_DENIED"))[0].GetField())
}

func violationsOf(s *status.Status) []*errdetails.BadRequest_FieldViolation {
	for _, d := range s.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return bad.GetFieldViolations()
		}
	}
	return nil
}

// Both layers must be passed where both are configured.
func TestCertificateAndToken(t *testing.T) {
	ca := newAuthority(t, "ca")
	folder := newTLSFolder(t, ca.issue(t, "server", time.Hour), ca)
	policy := secretFile(t, "policy.yaml", "rules:\n  - callers: ['cert:orders']\n    prefixes: [orders-]\n  - callers: ['token:ci']\n    prefixes: [ci-]\n")
	r := start(t, &fakeService{}, demandTokens(t), folder.demandCertificates, func(c *Config) {
		c.Auth.AllowedSubjects = []string{"orders"}
		c.Auth.PolicyFile = policy
	})
	known, unknown := r.connect(t, ca, ca.issue(t, "orders", time.Hour).pair), r.connect(t, ca, ca.issue(t, "x", time.Hour).pair)
	for _, c := range []struct {
		client *client
		token  string
		key    string
		want   int
	}{
		{known, ciToken, "orders-a", 200}, {known, ciToken, "ci-a", 200}, {known, ciToken, "x", 403},
		{known, "wrong-wrong-wrong-wrong", "ci-a", 401}, {unknown, ciToken, "ci-a", 403},
	} {
		got, err := c.client.get(t.Context(), "/v1/coordinators/GROUP/"+c.key, "Authorization", "Bearer "+c.token)
		require.NoError(t, err)
		require.Equal(t, c.want, got.status, "%s", got.body)
		_, err = c.client.grpc.GetCoordinator(bearing(t.Context(), "Bearer "+c.token), &coordsvcv1.GetCoordinatorRequest{Key: c.key})
		require.Equal(t, c.want, map[codes.Code]int{codes.OK: 200, codes.Unauthenticated: 401, codes.PermissionDenied: 403}[status.Code(err)])
	}
	got, err := known.get(t.Context(), "/v1/brokers")
	require.NoError(t, err)
	require.Equal(t, 401, got.status, "a certificate alone will not do")
}

// A JWT works over both protocols, and its issuer's silence is not the caller's fault.
func TestJWTOnBothProtocols(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1"}}})
	}))
	defer issuer.Close()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: issuer.URL, Subject: "alice", Audience: jwt.Audience{"coordsvc"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).Serialize()
	require.NoError(t, err)
	trust := func(issuer string) func(*Config) {
		return func(c *Config) {
			c.Auth.OIDC.Issuer, c.Auth.OIDC.Audiences = issuer, []string{"coordsvc"}
		}
	}

	r := start(t, &fakeService{}, demandTokens(t), trust(issuer.URL))
	for _, bearer := range []string{"Bearer " + token, "Bearer " + ciToken} { // either will do
		require.Equal(t, 200, r.overREST(t, "/v1/brokers", bearer).status)
		_, err = r.grpc.ListBrokers(bearing(t.Context(), bearer), &coordsvcv1.ListBrokersRequest{})
		require.NoError(t, err)
	}
	require.Contains(t, r.log.String(), `"caller":"jwt:alice"`)
	require.Equal(t, 401, r.overREST(t, "/v1/brokers", "Bearer "+token[:len(token)-4]+"AAAA").status)

	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := nobody.Addr().String()
	nobody.Close()
	r = start(t, &fakeService{}, trust("http://"+address))
	token, err = jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "http://" + address, Subject: "alice", Audience: jwt.Audience{"coordsvc"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).Serialize()
	require.NoError(t, err)
	got := r.overREST(t, "/v1/brokers", "Bearer "+token)
	require.Equal(t, 503, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	requireStatus(t, got, "ISSUER_UNREACHABLE")
	_, err = r.grpc.ListBrokers(bearing(t.Context(), "Bearer "+token), &coordsvcv1.ListBrokersRequest{})
	require.Equal(t, "ISSUER_UNREACHABLE", reasonOf(err))
	require.Equal(t, 401, r.overREST(t, "/v1/brokers").status, "without a token nobody needs the issuer")
	require.Error(t, r.ReloadErrors()["auth.oidc.issuer"])
}

func TestOneWarningWhereItIsNotSafe(t *testing.T) {
	ca := newAuthority(t, "ca")
	folder := newTLSFolder(t, ca.issue(t, "server", time.Hour), ca)
	beyond := func(c *Config) { c.GRPCAddress, c.HTTPAddress = "0.0.0.0:0", "0.0.0.0:0" }
	for name, c := range map[string]struct {
		changes []func(*Config)
		warns   string
	}{
		"this machine only":      {nil, ""},
		"one port is enough":     {[]func(*Config){func(c *Config) { c.HTTPAddress = ":0" }}, "without TLS and without authentication"},
		"neither":                {[]func(*Config){beyond}, "without TLS and without authentication"},
		"TLS only":               {[]func(*Config){beyond, folder.serve}, "without authentication"},
		"tokens only":            {[]func(*Config){beyond, demandTokens(t)}, "without TLS"},
		"TLS and tokens":         {[]func(*Config){beyond, folder.serve, demandTokens(t)}, ""},
		"client certificates":    {[]func(*Config){beyond, folder.demandCertificates}, ""},
		"tokens, read by others": {[]func(*Config){demandTokens(t), func(c *Config) { require.NoError(t, os.Chmod(c.Auth.TokenFile, 0o644)) }}, "can read a secret"},
		"a dead certificate":     {[]func(*Config){newTLSFolder(t, ca.issue(t, "server", -time.Minute)).serve}, "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, &fakeService{}, c.changes...)
			warnings := 0
			for line := range strings.Lines(r.log.String()) {
				if strings.Contains(line, `"level":"WARN"`) {
					warnings++
					require.NotEmpty(t, c.warns, line)
					require.Contains(t, line, c.warns)
				}
			}
			require.Equal(t, c.warns != "", warnings == 1, "%d warnings", warnings)
		})
	}
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc here to count descriptors in")
	}
	return len(entries)
}

// Goroutines are counted by goleak when all is over; here are descriptors and what
// the server itself knows to be open.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	ca, strangers := newAuthority(t, "ca"), newAuthority(t, "strangers")
	folder := newTLSFolder(t, ca.issue(t, "server", time.Hour), ca)
	r := start(t, &fakeService{}, demandTokens(t), folder.demandCertificates)
	allowed, refused := ca.issue(t, "x", time.Hour).pair, strangers.issue(t, "x", time.Hour).pair
	round := func() {
		for range 5 {
			for _, pair := range []struct{ shown, fails bool }{{true, false}, {false, true}} {
				certificate := allowed
				if pair.fails {
					certificate = refused
				}
				t.Run("", func(t *testing.T) { // its clean-up closes the client
					from := r.connect(t, ca, certificate)
					_, err := from.grpc.ListBrokers(bearing(t.Context(), "Bearer wrong-wrong-wrong"), &coordsvcv1.ListBrokersRequest{})
					require.Error(t, err)
					_, err = from.get(t.Context(), "/v1/brokers", "Authorization", "Bearer wrong-wrong-wrong")
					require.Equal(t, pair.fails, err != nil)
				})
			}
		}
	}
	round()
	var before int
	eventually(t, func() bool { before = openFiles(t); return before == openFiles(t) })
	for range 5 {
		round()
	}
	eventually(t, func() bool { return openFiles(t) <= before })
	require.Zero(t, r.inFlight.count())
}

// BenchmarkRefusal is a call without a good token, by each protocol from the chain
// or the handler on (what sockets cost is not in it). cpu-ns/op is the processor
// time of the whole process, which other processes on the machine do not lengthen.
func BenchmarkRefusal(b *testing.B) {
	cfg := DefaultConfig()
	cfg.Auth.TokenFile = secretFile(b, "tokens", "ci:"+ciToken+"\nops:"+opsToken+"\n")
	s, err := New(cfg, &fakeService{}, func() bool { return true }, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	defer s.drain.endStreams()
	b.Run("REST", func(b *testing.B) {
		measureCPU(b, func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/coordinators:find", bytes.NewReader(nil))
			r.Header.Set("Authorization", "Bearer wrong-wrong-wrong-wrong")
			w := httptest.NewRecorder()
			if s.rest.Handler.ServeHTTP(w, r); w.Code != 401 {
				b.Fatal(w.Code)
			}
		})
	})
	front := s.rest.Handler.(*front)
	b.Run("gRPC", func(b *testing.B) {
		info := &grpc.UnaryServerInfo{FullMethod: coordsvcv1.CoordinatorService_FindCoordinators_FullMethodName}
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer wrong-wrong-wrong-wrong"))
		ctx = grpc.NewContextWithServerTransportStream(ctx, discardHeaders{})
		measureCPU(b, func() {
			if _, err := front.client.chain(ctx, nil, info, nil); status.Code(err) != codes.Unauthenticated {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkRefusalOverTheWire is the same over loopback connections that are kept:
// client and server in one process, so that cpu-ns/op has both.
func BenchmarkRefusalOverTheWire(b *testing.B) {
	cfg := DefaultConfig()
	cfg.GRPCAddress, cfg.HTTPAddress, cfg.AdminAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DrainDelay = 0
	cfg.Auth.TokenFile = secretFile(b, "tokens", "ci:"+ciToken+"\n")
	s, err := New(cfg, &fakeService{}, func() bool { return true }, nil)
	require.NoError(b, err)
	require.NoError(b, s.Listen())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b, err)
	defer func() {
		require.NoError(b, conn.Close())
		stop()
		require.NoError(b, <-ended)
	}()
	calls := coordsvcv1.NewCoordinatorServiceClient(conn)
	measureCPU(b, func() {
		if _, err := calls.ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{}); status.Code(err) != codes.Unauthenticated {
			b.Fatal(err)
		}
	})
}

type discardHeaders struct{}

func (discardHeaders) Method() string               { return "" }
func (discardHeaders) SetHeader(metadata.MD) error  { return nil }
func (discardHeaders) SendHeader(metadata.MD) error { return nil }
func (discardHeaders) SetTrailer(metadata.MD) error { return nil }

func measureCPU(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
