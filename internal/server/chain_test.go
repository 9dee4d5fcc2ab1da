package server

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

func TestChainOrderIsChecked(t *testing.T) {
	for _, c := range []struct {
		steps []string
		says  string
	}{
		{steps: nil},
		{steps: []string{"recovery", "logging", "deadline"}},
		{steps: chainOrder},
		{steps: []string{"logging", "recovery"}, says: `"recovery" must come before "logging"`},
		{steps: []string{"auth", "auth"}, says: "must come before"},
		{steps: []string{"recovery", "coffee"}, says: `"coffee" has no place`},
	} {
		var steps []step
		for _, name := range c.steps {
			steps = append(steps, step{name: name})
		}
		_, err := newChain(steps...)
		if c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}
}

func TestChainRunsOutermostFirst(t *testing.T) {
	var trace []string
	mark := func(name string) step {
		return step{name: name, unaryStep: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			trace = append(trace, name)
			defer func() { trace = append(trace, name+" ends") }()
			return handler(ctx, req)
		}}
	}
	c, err := newChain(mark("recovery"), step{name: "tracing"}, mark("deadline"))
	require.NoError(t, err)
	run := c.unary()
	for range 2 { // a chain is run many times
		trace = nil
		resp, err := run(t.Context(), "question", nil, func(_ context.Context, req any) (any, error) {
			trace = append(trace, req.(string))
			return "answer", nil
		})
		require.NoError(t, err)
		require.Equal(t, "answer", resp)
		require.Equal(t, []string{"recovery", "deadline", "question", "deadline ends", "recovery ends"}, trace)
	}
}

func TestDeadlineIsTheEarlierOne(t *testing.T) {
	for _, c := range []struct{ callers, want time.Duration }{
		{time.Second, time.Second}, {time.Hour, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.callers)
			defer cancel()
			began := time.Now()
			_, err := deadline(30*time.Second).unaryStep(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, c.want, time.Since(began))
		})
	}
}

func TestNoDeadlineIsMadeUp(t *testing.T) {
	_, err := deadline(30*time.Second).unaryStep(t.Context(), nil, nil, func(ctx context.Context, _ any) (any, error) {
		_, given := ctx.Deadline()
		require.False(t, given, "the service could not tell it from the caller's wish")
		return nil, nil
	})
	require.NoError(t, err)
}

func TestAdmissionAfterTheEnd(t *testing.T) {
	l := newLimiter(DefaultConfig())
	f, step := l.inFlight, admission(l).unaryStep
	info := &grpc.UnaryServerInfo{}
	calls := 0
	handler := func(context.Context, any) (any, error) {
		calls++
		require.Equal(t, 1, f.count())
		return nil, nil
	}
	_, err := step(t.Context(), nil, info, handler)
	require.NoError(t, err)
	require.Zero(t, f.count())

	require.Zero(t, f.closeAndWait(time.Second))
	_, err = step(t.Context(), nil, info, handler)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Equal(t, "STOPPING", reasonOf(err))
	require.Equal(t, 1, calls)
}

func TestInFlightIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newInFlight(10)
		require.NoError(t, f.enter())
		require.NoError(t, f.enter())
		go func() {
			time.Sleep(time.Second)
			f.leave()
			time.Sleep(time.Second)
			f.leave()
		}()
		began := time.Now()
		require.Zero(t, f.closeAndWait(time.Minute))
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Error(t, f.enter())
	})
	synctest.Test(t, func(t *testing.T) {
		f := newInFlight(10)
		require.NoError(t, f.enter())
		require.Equal(t, 1, f.closeAndWait(time.Minute))
		f.leave()
	})
}

// A call of many keys is OK also where keys failed: the log says how many.
func TestLogOfFailedKeys(t *testing.T) {
	r := start(t, &fakeService{find: func(_ context.Context, req *coordsvcv1.FindCoordinatorsRequest) (*coordsvcv1.FindCoordinatorsResponse, error) {
		resp := &coordsvcv1.FindCoordinatorsResponse{}
		for _, key := range req.GetKeys() {
			if key == "forbidden" {
				resp.Failed++
				resp.Results = append(resp.Results, &coordsvcv1.CoordinatorResult{Key: key, Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{}}})
				continue
			}
			resp.Results = append(resp.Results, found(key))
		}
		return resp, nil
	}})
	lines := func() []string { return regexp.MustCompile(`"key_type":.*`).FindAllString(r.log.String(), -1) }
	ask := func(keys ...string) {
		_, err := r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: keys})
		require.NoError(t, err)
		require.Equal(t, 200, r.do(t, "GET", "/v1/coordinators?keyType=SHARE&keys="+strings.Join(keys, "&keys="), "").status)
	}
	ask("orders")
	ask("orders", "forbidden", "forbidden")
	eventually(t, func() bool { return len(lines()) == 4 })
	require.Equal(t, []string{
		`"key_type":"GROUP","keys":1}`, `"key_type":"SHARE","keys":1}`,
		`"key_type":"GROUP","keys":3,"failed":2}`, `"key_type":"SHARE","keys":3,"failed":2}`,
	}, lines())
}
