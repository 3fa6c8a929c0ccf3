package web

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
)

// The limits of an order.
const (
	maxUser  = 200 // characters
	maxItems = 100
	maxItem  = 200 // characters
)

// readOrder judges everything about an order that can be judged beforehand, and
// names every field that is wrong.
func (s *server) readOrder(c *gin.Context, in input) (r request, p *problem) {
	if r.chapter, p = s.chapterOf(c, in); p != nil {
		return r, p
	}
	if r.variant, p = variantOf(r.chapter, in); p != nil {
		return r, p
	}
	b, p := s.busOf(in)
	if p != nil {
		return r, p
	}
	r.fail, _ = in["fail"].(bool)
	r.order.Bus = b.Name
	var errs [3]error
	r.order.UserID, errs[0] = userID(in)
	r.order.Items, errs[1] = items(in)
	r.order.EventID, errs[2] = eventID(in)
	var wrong []fieldError
	for i, name := range []string{"user_id", "items", "event_id"} {
		if errs[i] != nil {
			wrong = append(wrong, fieldError{name, errs[i].Error()})
		}
	}
	if len(wrong) > 0 {
		return r, invalid(wrong...)
	}
	return r, nil
}

func userID(in input) (string, error) {
	user, given := in.str("user_id")
	switch n := utf8.RuneCountInString(user); {
	case !given:
		return "", errors.New("is missing")
	case n < 1 || n > maxUser:
		return "", fmt.Errorf("must have 1 to %d characters, it has %d", maxUser, n)
	}
	return user, nil
}

func items(in input) ([]string, error) {
	list, given := in["items"].([]string)
	switch {
	case !given:
		return nil, errors.New("is missing")
	case len(list) < 1 || len(list) > maxItems:
		return nil, fmt.Errorf("must be 1 to %d items, there are %d", maxItems, len(list))
	}
	for i, item := range list {
		if n := utf8.RuneCountInString(item); n < 1 || n > maxItem {
			return nil, fmt.Errorf("item %d must have 1 to %d characters, it has %d", i+1, maxItem, n)
		}
	}
	return list, nil
}

// eventID takes the client's own id, so that trying again cannot order twice.
func eventID(in input) (string, error) {
	id, given := in.str("event_id")
	if !given {
		return uuid.NewString(), nil
	}
	return parseEventID(id)
}

// parseEventID accepts the usual form only; uuid.Parse knows four.
func parseEventID(id string) (string, error) {
	const usualLength = 36
	if len(id) != usualLength || uuid.Validate(id) != nil {
		return "", errors.New("must be a UUID such as 0a4f9c1e-52d3-4b6e-9a3f-1c2d3e4f5a6b")
	}
	return strings.ToLower(id), nil
}
