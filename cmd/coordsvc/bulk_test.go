package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// finderFunc is a service for tests.
type finderFunc func(ctx context.Context, keys []string) (*coordsvcv1.FindCoordinatorsResponse, error)

func (f finderFunc) FindCoordinators(ctx context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
	return f(ctx, req.GetKeys())
}

func answerAll(_ context.Context, keys []string) (*coordsvcv1.FindCoordinatorsResponse, error) {
	response := &coordsvcv1.FindCoordinatorsResponse{}
	for _, key := range keys {
		response.Results = append(response.Results, found(key, 1, "kafka-1.example"))
	}
	return response, nil
}

func statusWith(code codes.Code, reason, retriable string) error {
	s, err := status.New(code, "what happened").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "coordsvc", Metadata: map[string]string{"retriable": retriable}})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func manyKeys(n int) []askedKey {
	keys := make([]askedKey, 0, n)
	for i := range n {
		keys = append(keys, askedKey{fmt.Sprintf("key-%d", i), i + 1})
	}
	return keys
}

func newBulk(f finderFunc, out *bytes.Buffer, maxKeys int) bulkLookup {
	return bulkLookup{
		service: f, timeout: time.Second, maxKeys: maxKeys,
		printer: newPrinter("json", out, style{}), flush: func() error { return nil },
		progress: newProgress(out, false, 0),
	}
}

func TestBulkLookupIsCutIntoCalls(t *testing.T) {
	var calls []int
	var out bytes.Buffer
	bulk := newBulk(func(ctx context.Context, keys []string) (*coordsvcv1.FindCoordinatorsResponse, error) {
		calls = append(calls, len(keys))
		return answerAll(ctx, keys)
	}, &out, 10)
	failures, err := bulk.do(t.Context(), manyKeys(25))
	require.NoError(t, err)
	require.Zero(t, failures)
	require.Equal(t, []int{10, 10, 5}, calls)
	require.Equal(t, 25, strings.Count(out.String(), `"coordinator":`))
	require.True(t, strings.HasSuffix(out.String(), `],"failed":0}`+"\n"))
}

// Once there are answers, a call that fails costs its own keys only.
func TestBulkLookupGoesOnAfterALaterFailure(t *testing.T) {
	calls := 0
	var out bytes.Buffer
	bulk := newBulk(func(ctx context.Context, keys []string) (*coordsvcv1.FindCoordinatorsResponse, error) {
		if calls++; calls == 2 {
			return nil, statusWith(codes.Unavailable, "BROKER_UNREACHABLE", "true")
		}
		return answerAll(ctx, keys)
	}, &out, 10)
	failures, err := bulk.do(t.Context(), manyKeys(25))
	require.NoError(t, err)
	require.Equal(t, 10, failures)
	require.Equal(t, 15, strings.Count(out.String(), `"coordinator":`))
	require.Equal(t, 10, strings.Count(out.String(), `"error":{"reason":"BROKER_UNREACHABLE","kafkaCode":0,"message":"what happened","retriable":true}`))
	require.True(t, strings.HasSuffix(out.String(), `],"failed":10}`+"\n"))
}

func TestBulkLookupOfAFirstFailurePrintsNothing(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
	}{
		{statusWith(codes.Unavailable, "BROKER_UNREACHABLE", "true"), exitUnreachable},
		{statusWith(codes.Unavailable, "TLS_FAILED", "false"), exitUnreachable},
		{statusWith(codes.Unavailable, "SASL_AUTHENTICATION_FAILED", "false"), exitUnreachable},
		{statusWith(codes.Unavailable, "NOT_A_KAFKA_BROKER", "false"), exitUnreachable},
		{statusWith(codes.DeadlineExceeded, "DEADLINE_EXCEEDED", "true"), exitUnreachable},
		{statusWith(codes.InvalidArgument, "INVALID_ARGUMENT", "false"), exitUsage},
		{statusWith(codes.ResourceExhausted, "OVERLOADED", "true"), exitFailed},
		{errors.New("no status"), exitFailed},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) {
			var out bytes.Buffer
			bulk := newBulk(func(context.Context, []string) (*coordsvcv1.FindCoordinatorsResponse, error) { return nil, tc.err }, &out, 10)
			_, err := bulk.do(t.Context(), manyKeys(25))
			var f *failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, tc.code, f.code)
			require.Empty(t, out.String())
			if tc.code == exitUnreachable {
				require.Equal(t, errorInfo(tc.err).GetReason()+": what happened", f.Error(), "operations.md has a section of that name")
			}
		})
	}
}

func TestBulkLookupIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	bulk := newBulk(func(ctx context.Context, _ []string) (*coordsvcv1.FindCoordinatorsResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}, &out, 10)
	_, err := bulk.do(ctx, manyKeys(1))
	require.ErrorIs(t, err, errInterrupted)
}

func TestBulkLookupSaysThatItCannotWrite(t *testing.T) {
	bulk := newBulk(answerAll, new(bytes.Buffer), 10)
	bulk.flush = func() error { return errors.New("no space left on device") }
	_, err := bulk.do(t.Context(), manyKeys(1))
	require.EqualError(t, err, "writing the answer: no space left on device")
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		p := newProgress(&w, true, 20_000)
		stop := p.waiting(0, 0)
		time.Sleep(450 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, w.String(), "a quick answer needs no progress")
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, strings.Repeat("\r\x1b[K0 of 20,000 keys looked up, 0s", 2)+strings.Repeat("\r\x1b[K0 of 20,000 keys looked up, 1s", 2), w.String())
		stop()
		require.True(t, strings.HasSuffix(w.String(), "\r\x1b[K"), "the line is gone before an answer is printed")

		w.Reset()
		stop = p.waiting(10_000, 3)
		time.Sleep(progressEvery + time.Millisecond)
		stop()
		require.Equal(t, "\r\x1b[K10,000 of 20,000 keys looked up, 3 failed, 1s\r\x1b[K", w.String())
	})
}

func TestProgressOfFewKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w lockedBuffer
		stop := newProgress(&w, true, 1).waiting(0, 0)
		time.Sleep(1_100 * time.Millisecond)
		stop()
		require.Equal(t, strings.Repeat("\r\x1b[Kwaiting for an answer, 0s", 2)+"\r\x1b[Kwaiting for an answer, 1s\r\x1b[K", w.String())
	})
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		stop := newProgress(&w, false, 20_000).waiting(0, 0)
		time.Sleep(time.Minute)
		stop()
		require.Empty(t, w.String())
	})
}
