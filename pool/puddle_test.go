package pool

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"
)

// What this package relies on in puddle. Before 2.2.3 a resource whose construction
// a TryAcquire had begun, and that was finished after Close, was never destroyed,
// and Close blocked for ever.
func TestPuddleClosesDuringConstruction(t *testing.T) {
	for name, begin := range map[string]func(*puddle.Pool[int]) error{
		"TryAcquire": func(p *puddle.Pool[int]) error {
			_, err := p.TryAcquire(context.Background())
			return err
		},
		"CreateResource": func(p *puddle.Pool[int]) error { return p.CreateResource(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				constructing, finish := make(chan struct{}), make(chan struct{})
				destroyed := false
				p, err := puddle.NewPool(&puddle.Config[int]{
					Constructor: func(context.Context) (int, error) {
						close(constructing)
						<-finish
						return 1, nil
					},
					Destructor: func(int) { destroyed = true },
					MaxSize:    1,
				})
				require.NoError(t, err)
				go begin(p)
				<-constructing
				closed := make(chan struct{})
				go func() {
					p.Close()
					close(closed)
				}()
				synctest.Wait()
				close(finish)
				<-closed // a deadlock fails the bubble
				require.True(t, destroyed)
			})
		})
	}
}
