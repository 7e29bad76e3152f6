// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// fakeReviewer accepts tokens whose names begin with "good", and counts the reviews.
type fakeReviewer struct {
	mu      sync.Mutex
	asked   map[string]int
	revoked map[string]bool
	// held delays answers until it is closed.
	held chan struct{}
	away error
}

func (r *fakeReviewer) Review(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.held; held != nil {
		r.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
	r.asked[token]++
	switch {
	case r.away != nil:
		return nil, r.away
	case strings.HasPrefix(token, "good") && !r.revoked[token]:
		return &authenticationv1.UserInfo{Username: token}, nil
	}
	return nil, hub.Faultf(http.StatusUnauthorized, "not known")
}

// reviewsTest has reviews, their fake reviewer and clock.
type reviewsTest struct {
	*reviews

	t   *testing.T
	hub *fakeReviewer
	now time.Time
}

func newReviewsTest(t *testing.T) *reviewsTest {
	r := &reviewsTest{t: t, hub: &fakeReviewer{asked: map[string]int{}, revoked: map[string]bool{}}, now: time.Unix(1000, 0)}
	r.reviews = newReviews(r.hub, func() time.Time { return r.now })
	return r
}

// status returns 200 or the status of the rejection.
func (r *reviewsTest) status(token, source string) int {
	user, err := r.review(r.t.Context(), token, source)
	var fault *hub.Fault
	switch {
	case err == nil && user.Username == token:
		return http.StatusOK
	case errors.As(err, &fault):
		return fault.Status
	}
	return http.StatusServiceUnavailable
}

func (r *reviewsTest) want(status int, token, source string) {
	r.t.Helper()
	if got := r.status(token, source); got != status {
		r.t.Errorf("token %.20s from %s: %d, want %d", token, source, got, status)
	}
}

const anna, mallory = "192.0.2.1:1000", "198.51.100.1:2000"

func TestReviewsAreCached(t *testing.T) {
	r := newReviewsTest(t)
	for range 10 {
		r.want(200, "good", anna)
		r.want(401, "bad", anna)
	}
	if r.hub.asked["good"] != 1 || r.hub.asked["bad"] != 1 {
		t.Errorf("the hub was asked %v", r.hub.asked)
	}
	r.now = r.now.Add(max(goodTTL, badTTL))
	r.hub.revoked["good"] = true
	r.want(401, "good", anna)
	r.want(401, "bad", anna)
	if r.hub.asked["good"] != 2 || r.hub.asked["bad"] != 2 {
		t.Errorf("later, the hub was asked %v", r.hub.asked)
	}
}

func TestMalformedTokensAreNotReviewed(t *testing.T) {
	r := newReviewsTest(t)
	for _, token := range []string{"a b", "a\x00", "é", "=", "a=b", strings.Repeat("a", maxToken+1)} {
		r.want(401, token, anna)
	}
	if len(r.hub.asked) > 0 {
		t.Errorf("the hub was asked %v", r.hub.asked)
	}
}

func TestRejectedBootstrapTokensAreNotCached(t *testing.T) {
	r := newReviewsTest(t)
	const token = "goodab.0123456789abcdef"
	r.hub.revoked[token] = true
	r.want(401, token, anna)
	r.hub.revoked[token] = false
	r.want(200, token, anna)
}

func TestConnectionErrorsAreNotCached(t *testing.T) {
	r := newReviewsTest(t)
	r.hub.away = errors.New("away")
	r.want(503, "good", anna)
	r.hub.away = nil
	r.want(200, "good", anna)
}

func TestFloodBlocksNoOthers(t *testing.T) {
	r := newReviewsTest(t)
	r.want(200, "good-behind-the-same-address", mallory)
	refused := 0
	for i := range 2000 {
		if r.status(fmt.Sprintf("bad%d", i), mallory) == http.StatusTooManyRequests {
			refused++
		}
	}
	if asked := len(r.hub.asked) - 1; asked > sourceReviewBurst || refused != 2000-asked {
		t.Errorf("the hub was asked for %d bad tokens, and %d were refused", asked, refused)
	}
	r.want(200, "good", anna)
	r.now = r.now.Add(goodTTL)
	r.want(200, "good-behind-the-same-address", mallory)
	for i := range 2000 {
		r.status(fmt.Sprintf("bad%d", i), fmt.Sprintf("[2001:db8:0:1::%x]:1", i))
	}
	if asked := len(r.hub.asked) - 2; asked > 2*(sourceReviewBurst+sourceReviewsPerSecond*int(goodTTL/time.Second)) {
		t.Errorf("from addresses of one client the hub was asked for %d bad tokens", asked)
	}
}

func TestUnknownClientsTakeNoSlotsOfKnown(t *testing.T) {
	r := newReviewsTest(t)
	r.want(200, "good", anna)
	r.now = r.now.Add(goodTTL)
	// The hub does not answer: all slots of unknown clients are taken.
	r.hub.held = make(chan struct{})
	var waiting sync.WaitGroup
	statuses := make(chan int, 2*maxUnknownReviews)
	for i := range 2 * maxUnknownReviews {
		waiting.Go(func() { statuses <- r.status(fmt.Sprintf("bad%d", i), fmt.Sprintf("203.0.113.%d:1", i)) })
	}
	for range maxUnknownReviews {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("a stranger that has no turn gets %d", status)
		}
	}
	waiting.Go(func() { r.want(200, "good", mallory) })
	// Only a known client waits for the hub now, in a slot of its own.
	for deadline := time.Now().Add(10 * time.Second); len(r.known) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(r.hub.held)
	waiting.Wait()
	if len(r.known) > 0 || len(r.unknown) > 0 {
		t.Error("turns are not given back")
	}
}

func TestLimitSendsRetryAfter(t *testing.T) {
	handler := &front{reviews: newReviewsTest(t).reviews, next: http.NewServeMux(), audit: discard(), now: time.Now}
	var last *httptest.ResponseRecorder
	for i := range sourceReviewBurst + 1 {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/clusters", http.NoBody)
		request.Header.Set("Authorization", fmt.Sprintf("Bearer bad%d", i))
		last = httptest.NewRecorder()
		handler.ServeHTTP(last, request)
	}
	if last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") != "1" {
		t.Errorf("%d with Retry-After %q", last.Code, last.Header().Get("Retry-After"))
	}
}
