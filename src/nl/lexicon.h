#ifndef RIDDLE_NL_LEXICON_H
#define RIDDLE_NL_LEXICON_H

/*
 * What English words have to do with each other: a reduction of WordNet, made at build by
 * scripts/make-lexicon, and word vectors, made by scripts/make-vectors; both are compiled in,
 * sorted, and searched as they lie there: only pages that a question touches are resident.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEX_OWN 8
#define LEX_WIDER 8
#define LEX_DERIVED 10

#define LEX_WORD_BYTES 20
#define LEX_NUMBERS 100

extern const char nl_lexicon[];
extern const size_t nl_lexicon_bytes;

/* The table of vectors: one file, and an entry of zeros. */
struct lexicon_file {
    const char *name, *bytes;
    size_t n_bytes;
};
extern const struct lexicon_file lexicon_vectors[];

/*
 * A word: numbers of concepts that it names, that are one step wider, and that words derived
 * from it
 * name.
 */
struct nl_lex {
    uint64_t mask; /* a bit for each concept, modulo 64 */
    uint32_t own[LEX_OWN], wider[LEX_WIDER], derived[LEX_DERIVED];
    uint8_t n_own, n_wider, n_derived;
    const int8_t *vector;                      /* LEX_NUMBERS; NULL: there is none */
    bool is_known, is_verb, is_noun, is_other; /* its usual parts of speech */
    bool is_person, is_event; /* what a noun is first: somebody; done, said, made, happening */
};

/* The word in lower case, in any of its regular forms. Not known: all zero. */
void nl_lex_find(const char *word, struct nl_lex *ret);
/* How near two words are by their concepts, 0 to 1. */
double nl_lex_match(const struct nl_lex *a, const struct nl_lex *b);
/* How near they are by what they are used with: the cosine of their vectors; 0 if one has none. */
double nl_lex_cosine(const struct nl_lex *a, const struct nl_lex *b);

#endif
