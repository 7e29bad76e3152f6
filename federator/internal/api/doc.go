// SPDX-License-Identifier: Apache-2.0

// Package api is the federator's REST API. Who asks is known by a bearer token, which the hub reviews; all is then done at the hub as
// that user, so that the hub's RBAC decides. The OpenAPI document follows from the types of requests and answers, and requests
// are checked by it before anything else is done with them.
package api
