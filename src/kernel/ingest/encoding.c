/*
 * Encodings. Text that is valid UTF-8 is UTF-8, and so is text most of which is: what is not is
 * Windows-1252 then, as if lines of two files were put together. Otherwise the East Asian encodings
 * are tried: the text must be valid, and most of what comes out must be letters that such texts are
 * made of. Then, letters that stand in a row are of another alphabet: the one whose common letters
 * they are. Single ones among ASCII letters are those of Western or Central Europe or of Turkey, on
 * Windows, a Mac or DOS.
 */

#include "kernel/ingest/encoding.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uchar.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"

#define SAMPLE_BYTES (256u << 10)
#define BLOCK_BYTES (256u << 10)

/*
 * ---- finding ------------------------------------------------------------------------------------
 * -------------------
 */

/* UTF-16 without a mark: text of the Latin scripts has a zero in every other byte. */
static bool is_utf16(const unsigned char *d, size_t len, size_t zero_at)
{
    size_t pairs = MIN_OF(len, (size_t)SAMPLE_BYTES) / 2, zeros = 0;

    for (size_t i = 0; i < pairs; i++) {
        if (d[2 * i + 1 - zero_at] == 0)
            return false;
        zeros += d[2 * i + zero_at] == 0;
    }
    return pairs >= 2 && zeros * 10 >= pairs * 7;
}

const char *encoding_wide(const unsigned char *d, size_t len)
{
    if (len >= 4 && memcmp(d, "\xff\xfe\0\0", 4) == 0)
        return "utf-32le";
    if (len >= 4 && memcmp(d, "\0\0\xfe\xff", 4) == 0)
        return "utf-32be";
    if (len >= 2 && d[0] == 0xff && d[1] == 0xfe)
        return "utf-16le";
    if (len >= 2 && d[0] == 0xfe && d[1] == 0xff)
        return "utf-16be";
    return is_utf16(d, len, 1) ? "utf-16le" : is_utf16(d, len, 0) ? "utf-16be" : NULL;
}

enum script { SCRIPT_KANA, SCRIPT_HANGUL, SCRIPT_COMMON_HAN, SCRIPT_OTHER };

static enum script script_of(uint32_t c)
{
    if (c >= 0x3040 && c <= 0x30ff)
        return SCRIPT_KANA;
    if (c >= 0xac00 && c <= 0xd7a3)
        return SCRIPT_HANGUL;
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0xff01 && c <= 0xff5e) || c == 0xffe5 ?
               SCRIPT_COMMON_HAN : /* … or wide forms among them */
               SCRIPT_OTHER;
}

/* Letters of an alphabet, and those that make up most of a text. */
static const struct alphabet {
    const char *encoding;
    uint32_t from, to;
    const char32_t *common;
} alphabets[] = {
    { "windows-1251", 0x400, 0x45f, U"оеаинтсрвлкмдпуяыг" },
    { "koi8-r", 0x400, 0x45f, U"оеаинтсрвлкмдпуяыг" },
    { "cp866", 0x400, 0x45f, U"оеаинтсрвлкмдпуяыг" },
    { "windows-1253", 0x370, 0x3ff, U"αοιετσνηυρπκμλςάόίήέ" },
    { "windows-1255", 0x590, 0x5ff, U"יוהלארתבשמנדםחק" },
    { "windows-1256", 0x600, 0x6ff, U"اليمنوترةبعدسفهق" },
    { "cp874", 0xe00, 0xe7f,
      U"านรอกเงมยลวดทสตคบปหใ"
      U"่้ีัิุื์็ะ" },
};

struct decoded {
    size_t n, scripts[SCRIPT_OTHER + 1]; /* characters past ASCII */
    long score;                          /* how much they look like the alphabet's */
    bool valid;
};

static int score_of(uint32_t c, const struct alphabet *a)
{
    if (c < a->from || c > a->to)
        return c < 0xc0 || (c >= 0x2010 && c <= 0x203a) ? 0 : -10; /* signs between words */
    for (const char32_t *p = a->common; *p; p++)
        if (*p == c)
            return 10;
    return 2;
}

/* `a` may be NULL. */
static void decode(const char *encoding, const struct alphabet *a, const unsigned char *data,
                   size_t len, struct decoded *ret)
{
    iconv_t cd = iconv_open("UTF-32LE", encoding);
    char *in = (char *)data;
    size_t left = len;

    *ret = (struct decoded){ .valid = cd != (iconv_t)-1 };
    while (ret->valid && left > 0) {
        uint32_t out[1024];
        char *to = (char *)out;
        size_t room = sizeof(out), n = iconv(cd, &in, &left, &to, &room);
        size_t made = (sizeof(out) - room) / sizeof(*out);

        for (size_t i = 0; i < made; i++) {
            if (out[i] < 0x80)
                continue;
            ret->n++;
            ret->scripts[script_of(out[i])]++;
            ret->score += a ? score_of(out[i], a) : 0;
        }
        if (n == (size_t)-1 && errno == EINVAL) /* the sample ends within a character */
            break;
        if (n == (size_t)-1 && errno != E2BIG)
            ret->valid = false;
    }
    if (cd != (iconv_t)-1)
        iconv_close(cd);
}

static const char *find_alphabet(const unsigned char *d, size_t len)
{
    const char *best = NULL;
    long best_score = 0;

    for (size_t i = 0; i < ARRAY_SIZE(alphabets); i++) {
        struct decoded t;

        decode(alphabets[i].encoding, &alphabets[i], d, len, &t);
        if (t.valid && t.score > best_score && t.score >= 5 * (long)t.n) {
            best = alphabets[i].encoding;
            best_score = t.score;
        }
    }
    return best;
}

/* Bytes 0xb0 to 0xd7 begin the most common characters in GBK and EUC-KR, 0xa4 to 0xc6 in Big5. */
static size_t count_leads(const unsigned char *d, size_t len, unsigned low, unsigned high)
{
    size_t n = 0;

    for (size_t i = 0; i + 1 < len; i++) {
        if (d[i] < 0x80)
            continue;
        n += d[i] >= low && d[i] <= high;
        i++;
    }
    return n;
}

/* Second bytes past ASCII: hardly any in DOS texts, whose letters stand among those of ASCII. */
static size_t count_high_trails(const unsigned char *d, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i + 1 < len; i++) {
        if (d[i] < 0x80)
            continue;
        n += d[i + 1] >= 0x80;
        i++;
    }
    return n;
}

static const char *find_asian(const unsigned char *d, size_t len)
{
    struct decoded t;

    decode("CP932", NULL, d, len, &t); /* Shift-JIS with the characters that Windows added */
    if (t.valid && t.n > 0 &&
        (t.scripts[SCRIPT_KANA] + t.scripts[SCRIPT_COMMON_HAN]) * 10 >= t.n * 8 &&
        (t.scripts[SCRIPT_KANA] * 10 >= t.n || count_high_trails(d, len) * 10 >= t.n * 3) &&
        count_leads(d, len, 0x81, 0x9f) * 2 >= t.n)
        return "shift_jis";
    decode("EUC-JP", NULL, d, len, &t);
    if (t.valid && t.n > 0 && t.scripts[SCRIPT_KANA] * 10 >= t.n * 2 &&
        (t.scripts[SCRIPT_KANA] + t.scripts[SCRIPT_COMMON_HAN]) * 10 >= t.n * 8)
        return "euc-jp";
    decode("CP949", NULL, d, len, &t);
    if (t.valid && t.n > 0 && t.scripts[SCRIPT_HANGUL] * 10 >= t.n * 8 &&
        count_leads(d, len, 0xb0, 0xc8) * 10 >= t.n * 8)
        return "cp949";
    decode("GB18030", NULL, d, len, &t);
    if (t.valid && t.n > 0 && t.scripts[SCRIPT_COMMON_HAN] * 10 >= t.n * 8 &&
        count_leads(d, len, 0xb0, 0xd7) * 10 >= t.n * 7)
        return "gb18030";
    decode("BIG5", NULL, d, len, &t);
    if (t.valid && t.n > 0 && t.scripts[SCRIPT_COMMON_HAN] * 10 >= t.n * 8 &&
        count_leads(d, len, 0xa4, 0xc6) * 10 >= t.n * 7)
        return "big5";
    return NULL;
}

static bool is_among(unsigned char c, const char *set)
{
    return strchr(set, c) != NULL;
}

static bool is_letter(unsigned char c)
{
    return isalpha(c) || c >= 0xc0;
}

/*
 * Signs of Windows-1252 that are letters of Central Europe in Windows-1250: the first ones within
 * words, the others also before one (not £ and ¥ before digits).
 */
static bool is_central(const unsigned char *d, size_t len, size_t i)
{
    bool before = i > 0 && is_letter(d[i - 1]), behind = i + 1 < len && is_letter(d[i + 1]);

    return (before && behind && is_among(d[i], "\xb3\xb9\x9c\xbf\x9f\xbe\x9d\x9e\x9a\xba")) ||
           (behind && is_among(d[i], "\xa3\xa5\xaf\x8a\x8e\xbc\xaa")) ||
           (before && is_among(d[i], "\xb3\xb9\x9f\x9e\x9a\x9d") && !behind && i + 1 < len &&
            d[i + 1] != '/' && i > 1 && is_letter(d[i - 2]));
}

/*
 * Bytes that are different letters in Windows-1250 and -1252. Those of most languages (a with an
 * umlaut, e with an acute) are the same in both.
 */
static bool tells_central(unsigned char c)
{
    return is_among(c, "\xc0\xc3\xc5\xc6\xc8\xca\xcc\xcf\xd1\xd2\xd5\xd8\xd9\xdb"
                       "\xe0\xe3\xe5\xe6\xe8\xea\xec\xef\xf1\xf2\xf5\xf8\xf9\xfb");
}

static const char *find_european(const unsigned char *d, size_t len)
{
    size_t high = 0, runs = 0, controls = 0, mac = 0, dos = 0, central = 0, telling = 0;
    size_t turkish = 0, acute = 0, umlauts = 0, double_acute = 0, western = 0;

    for (size_t i = 0; i < len; i++) {
        bool in_word = i > 0 && i + 1 < len && (isalpha(d[i - 1]) || d[i - 1] >= 0x80) &&
                       (isalpha(d[i + 1]) || d[i + 1] >= 0x80), c = false;

        if (d[i] < 0x80)
            continue;
        high++;
        runs += i == 0 || d[i - 1] < 0x80;
        controls += d[i] < 0xa0 && in_word;
        mac += in_word && is_among(d[i], "\x8a\x8e\x8f\x9a\x9f\x87\x88\x8d\x90\x96\x97\xa7");
        dos += in_word && is_among(d[i], "\x81\x82\x84\x94\x85\x87\x8a\xe1\xa0\xa1\xa2\xa3\xa4");
        c = is_central(d, len, i);
        central += c;
        telling += c || tells_central(d[i]);
        turkish += is_among(d[i], "\xd0\xdd\xde\xf0\xfd\xfe");
        umlauts += is_among(d[i], "\xd6\xdc\xf6\xfc");
        acute += is_among(d[i], "\xe1\xed\xe6\xf3\xfa\xc1\xcd\xc6\xd3\xda");
        double_acute += is_among(d[i], "\xd5\xdb\xf5\xfb");
        western += is_among(d[i], "\xe3\xe7\xe8\xea\xe0\xe4\xf1\xc3\xc7\xc4");
    }
    if (high == 0)
        return "utf-8";
    if (runs > 0 && high >= runs * 5 / 2 && high >= 6) {
        const char *found = find_alphabet(d, len);

        if (found)
            return found;
    }
    if (controls * 2 > high && mac >= dos && mac * 2 > controls)
        return "macintosh";
    if (controls * 2 > high && dos * 2 > controls)
        return "cp850";
    if (turkish > 1 && umlauts > 0 && acute == 0)
        return "windows-1254";
    if (double_acute > 0 && umlauts > 0 && acute > 0 && western == 0) /* Hungarian */
        return "windows-1250";
    return central * 6 >= telling && central > 1 ? "windows-1250" : "windows-1252";
}

/* Is most of what is past ASCII UTF-8? */
static bool is_mostly_utf8(const unsigned char *d, size_t len)
{
    size_t good = 0, bad = 0;

    for (size_t i = 0; i < len;) {
        size_t n = d[i] < 0x80 ? 1 : d[i] >= 0xf0 ? 4 : d[i] >= 0xe0 ? 3 : 2;

        if (d[i] < 0x80) {
            i++;
        } else if (d[i] >= 0xc2 && n <= len - i && str_is_utf8((const char *)d + i, n)) {
            good++;
            i += n;
        } else {
            bad++;
            i++;
        }
    }
    return good >= 3 && good >= 4 * bad;
}

const char *encoding_find(const unsigned char *data, size_t len, bool *ret_whole)
{
    const char *wide = encoding_wide(data, len), *found;
    size_t from = 0, n;

    *ret_whole = false;
    if (wide)
        return wide;
    *ret_whole = str_is_utf8((const char *)data, len);
    if (*ret_whole)
        return "utf-8";
    while (from < len && data[from] < 0x80) /* what says something may come late */
        from++;
    from = from > 1024 ? from - 1024 : 0;
    n = MIN_OF(len - from, (size_t)SAMPLE_BYTES);
    if (is_mostly_utf8(data + from, n))
        return "utf-8";
    found = find_asian(data + from, n);
    return found ? found : find_european(data + from, n);
}

/*
 * ---- converting ---------------------------------------------------------------------------------
 * -------------------
 */

/* Leaves out NULs, in place. */
static size_t drop_nuls(char *text, size_t n, int64_t *n_nul)
{
    size_t k = 0;

    if (!memchr(text, '\0', n))
        return n;
    for (size_t i = 0; i < n; i++)
        if (text[i])
            text[k++] = text[i];
    *n_nul += (int64_t)(n - k);
    return k;
}

static int convert(iconv_t cd, iconv_t other, const unsigned char *data, size_t len, size_t unit,
                   int out, char *block, bool (*must_stop)(const void *arg), const void *arg,
                   struct encoding_result *ret, struct err *err)
{
    char *in = (char *)data;
    size_t left = len;
    bool first = true;

    while (left > 0) {
        char *to = block;
        size_t room = BLOCK_BYTES - 8, made, n = iconv(cd, &in, &left, &to, &room);
        int r;

        if (n == (size_t)-1 && errno != E2BIG) { /* no text: one unit is passed over */
            char *byte = in;
            size_t one = 1, space = 4;

            if (other == (iconv_t)-1 || iconv(other, &byte, &one, &to, &space) == (size_t)-1) {
                memcpy(to, "\xef\xbf\xbd", 3);
                to += 3;
            }
            in += MIN_OF(unit, left);
            left -= MIN_OF(unit, left);
            ret->n_replaced++;
        }
        made = drop_nuls(block, (size_t)(to - block), &ret->n_nul);
        if (must_stop(arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        if (first && made >= 3 &&
            memcmp(block, "\xef\xbb\xbf", 3) == 0) /* the byte order mark is not data */
            r = fd_write_all(out, block + 3, made - 3, err);
        else
            r = fd_write_all(out, block, made, err);
        first = false;
        if (r < 0)
            return r;
    }
    return 0;
}

int encoding_convert(const unsigned char *data, size_t len, const char *encoding,
                     const char *out_path, bool (*must_stop)(const void *arg), const void *arg,
                     struct encoding_result *ret, struct err *err)
{
    auto_close int out = -1;
    auto_free char *block = malloc(BLOCK_BYTES);
    size_t unit = strncasecmp(encoding, "utf-16", 6) == 0 ? 2 :
                  strncasecmp(encoding, "utf-32", 6) == 0 ? 4 :
                                                            1;
    iconv_t cd = iconv_open("UTF-8", str_ieq(encoding, "shift_jis") ? "CP932" : encoding),
            other = (iconv_t)-1;
    int r;

    *ret = (struct encoding_result){ 0 };
    if (cd == (iconv_t)-1)
        return err_set(
            err, ERR_VALIDATION,
            "there is no encoding '%.40s'; try utf-8, windows-1252, shift_jis or gb18030",
            encoding);
    if (str_ieq(encoding, "utf-8")) /* what such a text has besides: see is_mostly_utf8() */
        other = iconv_open("UTF-8", "CP1252");
    out = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!block)
        r = err_set(err, ERR_NO_MEMORY, "out of memory for converting the file");
    else if (out < 0)
        r = err_errno(err, ERR_IO, errno, "making the converted file");
    else
        r = convert(cd, other, data, len, unit, out, block, must_stop, arg, ret, err);
    iconv_close(cd);
    if (other != (iconv_t)-1)
        iconv_close(other);
    return r;
}
