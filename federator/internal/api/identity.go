// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// Reviewer returns the user of a bearer token.
type Reviewer interface {
	Review(ctx context.Context, token string) (*authenticationv1.UserInfo, error)
}

// hubReviewer asks the hub.
type hubReviewer struct {
	asks      client.Client
	audiences []string
}

// bootstrapToken matches Kubernetes' bootstrap tokens, which have no audience. The federator's bootstrap tokens have no
// rights at the hub.
var bootstrapToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// Review asks the hub for the user of a token. A token that is wrong, has expired or is for another audience returns a
// Fault.
func (r hubReviewer) Review(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	enrolls := bootstrapToken.MatchString(token)
	if !enrolls {
		review.Spec.Audiences = r.audiences
	}
	if err := r.asks.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask the hub whose the token is: %w", err)
	}
	known := review.Status.Authenticated && review.Status.User.Username != ""
	if enrolls {
		known = known && strings.HasPrefix(review.Status.User.Username, "system:bootstrap:")
	} else {
		// An authenticator that ignores audiences accepts tokens for other audiences, and returns no audience.
		known = known && slices.ContainsFunc(review.Status.Audiences, func(audience string) bool { return slices.Contains(r.audiences, audience) })
	}
	if !known {
		return nil, hub.Faultf(http.StatusUnauthorized, "the hub does not know the bearer token for the audience %s: it is wrong, has expired, was withdrawn or is for another audience; "+
			"`kubectl create token ACCOUNT --audience %s` at the hub makes one", strings.Join(r.audiences, ", "), r.audiences[0])
	}
	return &review.Status.User, nil
}

// userKey is the context key of the caller.
type userKey struct{}

// caller returns the user that sent the request.
func caller(ctx context.Context) authenticationv1.UserInfo {
	user, _ := ctx.Value(userKey{}).(authenticationv1.UserInfo)
	return user
}

// errNoToken is the response to requests without a token.
var errNoToken = hub.Faultf(http.StatusUnauthorized, "the request has no bearer token; send one of the hub as \"Authorization: Bearer TOKEN\"")

// identify authenticates the caller of a request.
func identify(request *http.Request, reviews *reviews) (*authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, errNoToken
	}
	user, err := reviews.review(request.Context(), token, request.RemoteAddr)
	var fault *hub.Fault
	if err != nil && !errors.As(err, &fault) {
		return nil, &hub.Fault{Status: http.StatusServiceUnavailable, Message: errorMessage(err)}
	}
	return user, err
}
