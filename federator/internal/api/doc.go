// SPDX-License-Identifier: Apache-2.0

// Package api is the federator's REST API. The hub reviews the bearer token of each request, and the request is carried
// out at the hub as that user, so that the hub's RBAC decides. The OpenAPI document follows from the types of requests
// and responses; requests are validated against it first.
package api
