package test

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/internal/oidctest"
)

// The secrets of these tests. None of them may ever be printed.
const (
	alicePassword = "alice-s3cret-password"
	wrongPassword = "wr0ng-s3cret-password"
)

// scramHashes are how brokers derive what they store of a password, by Kafka's number
// of the mechanism.
var scramHashes = map[int8]func(password string, salt []byte, iterations int) []byte{
	1: func(password string, salt []byte, iterations int) []byte {
		return derive(sha256.New, password, salt, iterations)
	},
	2: func(password string, salt []byte, iterations int) []byte {
		return derive(sha512.New, password, salt, iterations)
	},
}

func derive[H hash.Hash](newHash func() H, password string, salt []byte, iterations int) []byte {
	key, err := pbkdf2.Key(newHash, password, salt, iterations, newHash().Size())
	if err != nil {
		panic(err)
	}
	return key
}

// reauthEvery is the brokers' connections.max.reauth.ms.
const reauthEvery = 3 * time.Second

// A secured is a cluster with a listener for each way of being secured.
type secured struct {
	*kafkatest.Cluster
	dir       string
	authority *kafkatest.Authority
}

const (
	saslPackage = "org.apache.kafka.common.security."
	pemType     = "PEM"
)

// startSecured starts one broker. With oidc, one listener takes the tokens of that
// provider.
func startSecured(t *testing.T, version string, oidc *oidctest.Server) *secured {
	t.Helper()
	s := &secured{dir: t.TempDir(), authority: kafkatest.NewAuthority(t, "coordsvc test authority")}
	s.write(t, "ca.pem", s.authority.PEM)
	broker := s.authority.Issue("broker", "localhost", "127.0.0.1")
	elsewhere := s.authority.Issue("broker", "elsewhere.test")
	expired := s.authority.IssueUntil(time.Now().Add(-time.Hour), "broker", "127.0.0.1")

	properties := map[string]string{"connections.max.reauth.ms": fmt.Sprint(reauthEvery.Milliseconds())}
	listeners := []kafkatest.Listener{
		{Name: "TLS", Protocol: "SSL"}, {Name: "MTLS", Protocol: "SSL"}, {Name: "EXPIRED", Protocol: "SSL"}, {Name: "ELSEWHERE", Protocol: "SSL"},
		{Name: "SASL", Protocol: "SASL_PLAINTEXT"}, {Name: "SECURE", Protocol: "SASL_SSL"},
	}
	for name, certificate := range map[string]kafkatest.Certificate{"tls": broker, "mtls": broker, "expired": expired, "elsewhere": elsewhere, "secure": broker} {
		prefix := "listener.name." + name + ".ssl."
		// In the settings themselves, for Kafka 2.8 wants keys in files to be encrypted.
		properties[prefix+"keystore.type"], properties[prefix+"truststore.type"] = pemType, pemType
		properties[prefix+"keystore.key"] = string(certificate.KeyPEM)
		properties[prefix+"keystore.certificate.chain"] = string(certificate.CertPEM)
		properties[prefix+"truststore.certificates"] = string(s.authority.PEM)
	}
	properties["listener.name.mtls.ssl.client.auth"] = "required"
	scram := saslPackage + "scram.ScramLoginModule required;"
	plain := fmt.Sprintf(saslPackage+"plain.PlainLoginModule required user_alice=%q;", alicePassword)
	for name, mechanisms := range map[string]map[string]string{
		"sasl": {
			"PLAIN": plain, "SCRAM-SHA-256": scram, "SCRAM-SHA-512": scram,
			"OAUTHBEARER": saslPackage + `oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="svc";`,
		},
		"secure": {"PLAIN": plain, "SCRAM-SHA-512": scram},
	} {
		addMechanisms(properties, name, mechanisms)
	}
	options := kafkatest.Options{Version: version, Properties: properties}
	if oidc != nil {
		listeners = append(listeners, kafkatest.Listener{Name: "OIDC", Protocol: "SASL_PLAINTEXT"})
		addMechanisms(properties, "oidc", map[string]string{"OAUTHBEARER": saslPackage + "oauthbearer.OAuthBearerLoginModule required;"})
		properties["listener.name.oidc.oauthbearer.sasl.server.callback.handler.class"] = saslPackage + "oauthbearer.OAuthBearerValidatorCallbackHandler"
		properties["listener.name.oidc.sasl.oauthbearer.jwks.endpoint.url"] = oidc.Keys()
		properties["listener.name.oidc.sasl.oauthbearer.expected.audience"] = oidctest.ClientID
		properties["listener.name.oidc.sasl.oauthbearer.expected.issuer"] = oidc.URL
		options.JVMArgs = []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + oidc.Keys()}
		properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		properties["allow.everyone.if.no.acl.found"] = "true"
		properties["super.users"] = "User:ANONYMOUS" // the brokers themselves
	}
	options.Listeners = listeners
	s.Cluster = kafkatest.Start(t, options)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Warm(ctx))
	s.addScramUser(t, "alice", alicePassword)
	return s
}

func addMechanisms(properties map[string]string, listener string, mechanisms map[string]string) {
	prefix := "listener.name." + listener + "."
	var names []string
	for mechanism, jaas := range mechanisms {
		names = append(names, mechanism)
		properties[prefix+strings.ToLower(mechanism)+".sasl.jaas.config"] = jaas
	}
	properties[prefix+"sasl.enabled.mechanisms"] = strings.Join(names, ",")
}

func (s *secured) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	return path
}

// ask sends requests as the brokers' own user.
func (s *secured) ask(t *testing.T) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Bootstrap()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func (s *secured) addScramUser(t *testing.T, name, password string) {
	t.Helper()
	const iterations = 8192
	for mechanism, hash := range scramHashes { // one a request: Kafka takes no more for a user
		request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt = name, mechanism, iterations, []byte("salt of "+name)
		u.SaltedPassword = hash(password, u.Salt, iterations)
		request.Upsertions = append(request.Upsertions, u)
		answer, err := request.RequestWith(t.Context(), s.ask(t))
		require.NoError(t, err)
		require.Zero(t, answer.Results[0].ErrorCode)
	}
	time.Sleep(200 * time.Millisecond) // the broker learns of it by its metadata log, or from ZooKeeper
}

// deny takes DESCRIBE on a group from a user.
func (s *secured) deny(t *testing.T, principal, group string) {
	t.Helper()
	acl := kmsg.NewCreateACLsRequestCreation()
	acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceTypeGroup, group, kmsg.ACLResourcePatternTypeLiteral
	acl.Principal, acl.Host = principal, "*"
	acl.Operation, acl.PermissionType = kmsg.ACLOperationDescribe, kmsg.ACLPermissionTypeDeny
	request := kmsg.NewPtrCreateACLsRequest()
	request.Creations = append(request.Creations, acl)
	answer, err := request.RequestWith(t.Context(), s.ask(t))
	require.NoError(t, err)
	require.Zero(t, answer.Results[0].ErrorCode)
	time.Sleep(200 * time.Millisecond)
}

// token is one of those that brokers take unsigned.
func token(life time.Duration) []byte {
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := float64(time.Now().Unix())
	return []byte(part(map[string]string{"alg": "none"}) + "." +
		part(map[string]any{"sub": "svc", "iat": now, "exp": now + life.Seconds()}) + ".\n")
}

// lookupOn runs coordsvc lookup on a listener, and returns its exit code and what it
// printed.
func (s *secured) lookupOn(t *testing.T, listener string, flags ...string) (code int, out, stderr string) {
	t.Helper()
	args := append([]string{"lookup", "--kafka-brokers", strings.Join(s.BootstrapOf(listener), ","), "--log-level", "debug", "--timeout", "5s"}, flags...)
	cmd := command(append(args, "orders", "payments")...)
	var stdout, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &errors
	_ = cmd.Run()
	requireNoSecret(t, stdout.String()+errors.String())
	return cmd.ProcessState.ExitCode(), stdout.String(), errors.String()
}

func requireNoSecret(t testing.TB, text string) {
	t.Helper()
	for _, secret := range []string{alicePassword, wrongPassword, "s3cret", oidctest.ClientSecret, "eyJ"} {
		require.NotContains(t, text, secret)
	}
}

// TestKafkaSecurity tries each way of being secured on real brokers.
func TestKafkaSecurity(t *testing.T) {
	for _, version := range []string{"4.4.0", "2.8.2"} {
		t.Run("kafka-"+version, func(t *testing.T) {
			kafkatest.RequireReal(t, version)
			var oidc *oidctest.Server
			if version == "4.4.0" {
				oidc = oidctest.Start(t)
			}
			s := startSecured(t, version, oidc)
			t.Run("good", func(t *testing.T) { secureLookups(t, s, oidc) })
			t.Run("refused", func(t *testing.T) { refusedLookups(t, s) })
			t.Run("certificate replaced", func(t *testing.T) { certificateReplaced(t, s) })
			t.Run("re-authentication", func(t *testing.T) { reauthentication(t, s) })
			if oidc != nil {
				t.Run("ACL", func(t *testing.T) { deniedGroup(t, s) })
			}
		})
	}
}

func secureLookups(t *testing.T, s *secured, oidc *oidctest.Server) {
	client := s.authority.Issue("coordsvc")
	tls := []string{"--kafka-tls-enabled", "--kafka-tls-ca-file", filepath.Join(s.dir, "ca.pem")}
	password := []string{"--kafka-sasl-username", "alice", "--kafka-sasl-password-file", s.write(t, "password", []byte(alicePassword+"\n"))}
	cases := []struct {
		name, listener string
		flags          []string
	}{
		{"TLS", "TLS", tls},
		{"TLS by another name", "ELSEWHERE", with(tls, "--kafka-tls-server-name", "elsewhere.test")},
		{"TLS unchecked", "EXPIRED", []string{"--kafka-tls-enabled", "--kafka-tls-insecure-skip-verify"}},
		{"client certificate", "MTLS", with(tls, "--kafka-tls-cert-file", s.write(t, "client.pem", client.CertPEM),
			"--kafka-tls-key-file", s.write(t, "client-key.pem", client.KeyPEM))},
		{"PLAIN", "SASL", with(password, "--kafka-sasl-mechanism", "PLAIN")},
		{"PLAIN over TLS", "SECURE", with(tls, with(password, "--kafka-sasl-mechanism", "PLAIN")...)},
		{"SCRAM-SHA-256", "SASL", with(password, "--kafka-sasl-mechanism", "SCRAM-SHA-256")},
		{"SCRAM-SHA-512", "SASL", with(password, "--kafka-sasl-mechanism", "SCRAM-SHA-512")},
		{"SCRAM-SHA-512 over TLS", "SECURE", with(tls, with(password, "--kafka-sasl-mechanism", "SCRAM-SHA-512")...)},
		{"OAUTHBEARER from a file", "SASL", []string{"--kafka-sasl-mechanism", "OAUTHBEARER",
			"--kafka-sasl-token-file", s.write(t, "token", token(time.Hour))}},
	}
	if oidc != nil {
		cases = append(cases, struct {
			name, listener string
			flags          []string
		}{"OAUTHBEARER from a token endpoint", "OIDC", []string{
			"--kafka-sasl-mechanism", "OAUTHBEARER", "--kafka-sasl-oauth-token-endpoint-url", oidc.TokenEndpoint(),
			"--kafka-sasl-oauth-client-id", oidctest.ClientID,
			"--kafka-sasl-oauth-client-secret-file", s.write(t, "client-secret", []byte(oidctest.ClientSecret)),
		}})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, out, stderr := s.lookupOn(t, c.listener, c.flags...)
			require.Zero(t, code, "%s%s", out, stderr)
			require.Contains(t, out, "orders")
			require.Contains(t, out, "127.0.0.1")
		})
	}
}

func with(flags []string, more ...string) []string {
	return append(append([]string{}, flags...), more...)
}

func refusedLookups(t *testing.T, s *secured) {
	ca := filepath.Join(s.dir, "ca.pem")
	other := s.write(t, "other-ca.pem", kafkatest.NewAuthority(t, "another authority").PEM)
	tls := []string{"--kafka-tls-enabled", "--kafka-tls-ca-file", ca}
	as := func(mechanism, user, password string) []string {
		return []string{"--kafka-sasl-mechanism", mechanism, "--kafka-sasl-username", user, "--kafka-sasl-password", password}
	}
	for _, c := range []struct {
		name, listener string
		flags          []string
		says           []string
	}{
		{"expired certificate", "EXPIRED", tls, []string{"the broker's certificate has expired on 20"}},
		{"unknown authority", "TLS", []string{"--kafka-tls-enabled", "--kafka-tls-ca-file", other},
			[]string{"authority that is not trusted here", "coordsvc test authority", "kafka.tls.ca-file"}},
		{"wrong name", "ELSEWHERE", tls, []string{`not for the name "127.0.0.1"`, "it is for elsewhere.test", "kafka.tls.server-name"}},
		{"no client certificate", "MTLS", tls, []string{"certificate"}},
		{"plaintext to TLS", "TLS", nil, []string{"TLS"}},
		{"TLS to plaintext", "PLAINTEXT", tls, []string{"plaintext listener", "unset kafka.tls.enabled"}},
		{"wrong password, PLAIN", "SASL", as("PLAIN", "alice", wrongPassword), []string{"refused the credentials (PLAIN)"}},
		{"wrong password, SCRAM", "SASL", as("SCRAM-SHA-256", "alice", wrongPassword), []string{"refused the credentials (SCRAM-SHA-256)"}},
		{"unknown user", "SASL", as("SCRAM-SHA-512", "mallory", wrongPassword), []string{"refused the credentials (SCRAM-SHA-512)"}},
		{"mechanism not offered", "SECURE", with(tls, as("SCRAM-SHA-256", "alice", alicePassword)...),
			[]string{"does not offer the mechanism SCRAM-SHA-256; it offers", "PLAIN", "SCRAM-SHA-512"}},
		{"no SASL wanted", "PLAINTEXT", as("PLAIN", "alice", alicePassword), []string{"does not authenticate by SASL", "kafka.sasl.mechanism"}},
		{"SASL wanted", "SASL", nil, []string{"SASL"}},
		{"expired token", "SASL", []string{"--kafka-sasl-mechanism", "OAUTHBEARER", "--kafka-sasl-token-file", s.write(t, "old-token", token(-time.Hour))},
			[]string{"refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, stderr := s.lookupOn(t, c.listener, c.flags...)
			t.Log(firstLineWith(stderr, "coordsvc: "))
			require.Equal(t, 3, code, "%s%s", out, stderr)
			for _, part := range c.says {
				require.Contains(t, stderr, part)
			}
		})
	}
}

func groups(keys ...string) question { return question{keyType: coordsvcv1.KeyType_GROUP, keys: keys} }

func firstLineWith(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return text
}

// certificateReplaced replaces the client's certificate by one of another authority,
// by none at all, and by a good one, while the service runs.
func certificateReplaced(t *testing.T, s *secured) {
	write := func(c kafkatest.Certificate) (cert, key string) {
		return s.write(t, "service.pem", c.CertPEM), s.write(t, "service-key.pem", c.KeyPEM)
	}
	cert, key := write(kafkatest.NewAuthority(t, "stranger").Issue("coordsvc"))
	p := serve(t, s.BootstrapOf("MTLS"), "--kafka-tls-enabled", "--kafka-tls-ca-file", filepath.Join(s.dir, "ca.pem"),
		"--kafka-tls-cert-file", cert, "--kafka-tls-key-file", key)
	status, _, body := getOne(t, p, groups("orders"))
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	write(s.authority.Issue("coordsvc"))
	p.ready(t)
	status, _, body = getOne(t, p, groups("orders"))
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, p.logged(), "changed files are in use")
}

// reauthentication looks up under load while each connection authenticates anew every
// three seconds, by each mechanism, and no lookup may fail.
func reauthentication(t *testing.T, s *secured) {
	tokenFile := s.write(t, "fresh-token", token(5*time.Second))
	stop := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { // the token lasts 5 s and is replaced each second
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				s.write(t, "fresh-token", token(5*time.Second))
			}
		}
	})
	defer renewing.Wait()
	defer close(stop)
	password := []string{"--kafka-sasl-username", "alice", "--kafka-sasl-password", alicePassword}
	mechanisms := map[string][]string{
		"PLAIN": password, "SCRAM-SHA-256": password, "SCRAM-SHA-512": password,
		"OAUTHBEARER": {"--kafka-sasl-token-file", tokenFile},
	}
	var services []*process
	for mechanism, flags := range mechanisms {
		p := serve(t, s.BootstrapOf("SASL"), with(flags, "--kafka-sasl-mechanism", mechanism, "--log-level", "debug")...)
		p.ready(t)
		services = append(services, p)
	}
	end := time.Now().Add(30 * time.Second)
	var asked, failed atomic.Int64
	var callers sync.WaitGroup
	for _, p := range services {
		ask := askers(t, p, nil)[0].ask // gRPC
		for caller := range 8 {
			callers.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					rows := ask(t, groups(kafkatest.WellFormedKeys(0, fmt.Sprintf("%d-%d", caller, n), 20)...))
					asked.Add(int64(len(rows)))
					for _, r := range rows {
						if r.Reason != "" {
							failed.Add(1)
							t.Errorf("%s: %s", r.Key, r.Reason)
						}
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	callers.Wait()
	t.Logf("%d keys asked, %d failed", asked.Load(), failed.Load())
	for _, p := range services {
		requireNoSecret(t, p.logged())
		require.NotContains(t, p.logged(), "re-authentication failed")
		require.NotContains(t, p.logged(), `"level":"ERROR"`)
	}
}

func deniedGroup(t *testing.T, s *secured) {
	s.deny(t, "User:alice", "secret-group")
	p := serve(t, s.BootstrapOf("SASL"), "--kafka-sasl-mechanism", "SCRAM-SHA-256", "--kafka-sasl-username", "alice", "--kafka-sasl-password", alicePassword)
	p.ready(t)
	rows := askers(t, p, nil)[0].ask(t, groups("orders", "secret-group", "payments"))
	require.Empty(t, rows[0].Reason)
	require.Equal(t, "GROUP_AUTHORIZATION_FAILED", rows[1].Reason)
	require.Empty(t, rows[2].Reason)
	status, _, body := getOne(t, p, groups("secret-group"))
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "DESCRIBE on GROUP")
	require.Contains(t, body, "secret-group")
}
