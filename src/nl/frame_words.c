/*
 * The words of the reader by rules: phrases, words that say nothing, countries, opposites,
 * units.
 */

#include <string.h>

#include "nl/frame.h"

/* The longest phrase wins. */
const struct nl_phrase fr_phrases[] = {
#define P(words, mark, arg) { words, (enum nl_mark)(mark), arg, NULL },
#define H(words, mark, arg, hint) { words, (enum nl_mark)(mark), arg, hint },
/* An adjective in all its uses: hot, hotter, hotter than, hottest, how hot, unusually hot. */
#define ADJ(base, more, most, dir, hint)                                                           \
    H(more, FM_MORE, dir, hint)                                                                    \
    H(more " than", FM_CMP, (dir) > 0 ? FILTER_GT : FILTER_LT, hint)                               \
    H(most, FM_SUPER, dir, hint)                                                                   \
    H("how " base, FM_ADVERB, 0, hint)                                                             \
    H("unusually " base, FM_OUTLIER, dir, hint)
/* What is faster has a higher speed, or takes less time. */
#define SPEED                                                                                      \
    "speed|velocity|~duration|~tim|~wait|~delay|~respons|~resolution|~latency|~turnaround"         \
    "|~minut|~hour|~day"
/* A period against the one before it, in the ways to say so. */
#define PREVIOUS(unit)                                                                             \
    H("against the previous " unit, FM_CHANGE, 2, unit)                                            \
    H("change against the previous " unit, FM_CHANGE, 2, unit)                                     \
    H("compared to the previous " unit, FM_CHANGE, 2, unit)                                        \
    H("compared with the previous " unit, FM_CHANGE, 2, unit)                                      \
    H("versus the previous " unit, FM_CHANGE, 2, unit)                                             \
    H("vs the previous " unit, FM_CHANGE, 2, unit)                                                 \
    H("vs previous " unit, FM_CHANGE, 2, unit)                                                     \
    H("change from the previous " unit, FM_CHANGE, 2, unit)                                        \
    H("change from " unit " to " unit, FM_CHANGE, 2, unit)
#include "nl/frame_phrases.inc"
#undef P
#undef H
#undef ADJ
#undef SPEED
#undef PREVIOUS
};
const size_t fr_n_phrases = ARRAY_SIZE(fr_phrases);

static bool in_list(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; n > 0 && (p = strstr(p, word)) != NULL; p++)
        if (p[-1] == ' ' && p[n] == ' ')
            return true;
    return false;
}

/* Function words, and nouns and verbs that add nothing to a question about tables. */
bool fr_is_light(const char *word)
{
    static const char words[] =
        " "
        "a an the of is are was were be been am do does did done have has had having we us me "
        "i you my our your their its his her it they them he she there here this these those "
        "that which who whom whose what whats what's when where how show list find give "
        "return tell display get got gets getting please can could would will for from with "
        "to in on at by as and or all any some s also so if than then much many such only "
        "just into out up about own ever both along respective every each per through during "
        "within between among amongst across record records recorded row rows entry entries "
        "listed exist exists existing currently right now together altogether total totally "
        "overall entire whole based called named retrieve report select determine calculate "
        "compute provide want wants wanted know like look take takes took make makes made see "
        "but other used use uses using including include database table tables data dataset "
        "datasets file files information info detail details being one ones belong belongs "
        "belonging given itself kind kinds sort present possible registered stored shown "
        "appear appears value values still come comes came coming go goes went happen "
        "happened happens occur occurs occurred placed place places place's ago let really "
        "draw plot chart graph number numbers figure figures figure's no. result results yet "
        "too very over under toward towards against i'm id ive i've d'you need would'nt "
        "someone somebody anyone anybody everyone everybody everything anything something "
        "people person folks guys thing things stuff bring brings brought brung say says said "
        "ask asked answer answers answered reach reached receive received receives win seen "
        "looked hold held there's let's im ok okay hi hello hey thanks thank thx pls plz kindly quick "
        "quickly exactly actually simply basically approximately roughly around many's "
        "they're we've we're it's not's that's name names i.e e.g ie eg namely count counts "
        "counted counting distinct different various unique individual respectively available "
        "well good nice work works working worked doing put puts keep kept run runs ran time "
        "times long while because since until via upon each's types lot lots bit more's how's "
        "who's where's when's case cases sorted order ordered amount amounts don doesn didn "
        "isn aren wasn weren haven hasn hadn won wouldn couldn ain strongly written wrote "
        "write writes submitted created entered sent taken collected employ employs employed "
        "serve serves served sold sell sells buy buys bought purchase purchased full complete "
        "typical typically normally usually generally ours theirs mine yours himself herself "
        "far again once twice pandas python sql group grouped grouping bar bars pie scatter "
        "histogram diagram single print side either neither nor plus minus rather instead per- ";
    return in_list(words, word);
}

/* Country: its names and codes, then its people and adjectives. */
static const char *const countries[][10] = {
    { "germany", "deutschland", "de", "deu", "ger", "german", "germans" },
    { "france", "fr", "fra", "french", "frenchmen" },
    { "italy", "it", "ita", "italian", "italians" },
    { "spain", "es", "esp", "spanish", "spaniard", "spaniards" },
    { "portugal", "pt", "prt", "portuguese" },
    { "netherlands", "the netherlands", "nl", "nld", "holland", "dutch" },
    { "belgium", "be", "bel", "belgian", "belgians" },
    { "austria", "at", "aut", "austrian", "austrians" },
    { "switzerland", "ch", "che", "swiss" },
    { "poland", "pl", "pol", "polish", "poles" },
    { "czechia", "czech republic", "cz", "cze", "czech", "czechs" },
    { "hungary", "hu", "hun", "hungarian", "hungarians" },
    { "romania", "ro", "rou", "romanian", "romanians" },
    { "greece", "gr", "grc", "greek", "greeks" },
    { "turkey", "turkiye", "tr", "tur", "turkish", "turks" },
    { "russia", "ru", "rus", "russian", "russians" },
    { "ukraine", "ua", "ukr", "ukrainian", "ukrainians" },
    { "sweden", "se", "swe", "swedish", "swedes" },
    { "norway", "no", "nor", "norwegian", "norwegians" },
    { "denmark", "dk", "dnk", "danish", "danes" },
    { "finland", "fi", "fin", "finnish", "finns" },
    { "iceland", "is", "isl", "icelandic", "icelanders" },
    { "ireland", "ie", "irl", "irish" },
    { "united kingdom", "uk", "gb", "gbr", "great britain", "britain", "england", "british",
      "brits", "english" },
    { "united states", "usa", "us", "united states of america", "america", "u.s.", "american",
      "americans", "states" },
    { "canada", "ca", "can", "canadian", "canadians" },
    { "mexico", "mx", "mex", "mexican", "mexicans" },
    { "brazil", "br", "bra", "brazilian", "brazilians" },
    { "argentina", "ar", "arg", "argentinian", "argentine", "argentines", "argentinians" },
    { "chile", "cl", "chl", "chilean", "chileans" },
    { "colombia", "co", "col", "colombian", "colombians" },
    { "peru", "pe", "per", "peruvian", "peruvians" },
    { "china", "cn", "chn", "chinese" },
    { "japan", "jp", "jpn", "japanese" },
    { "india", "in", "ind", "indian", "indians" },
    { "south korea", "korea", "kr", "kor", "korean", "koreans" },
    { "vietnam", "vn", "vnm", "vietnamese" },
    { "thailand", "th", "tha", "thai", "thais" },
    { "indonesia", "id", "idn", "indonesian", "indonesians" },
    { "malaysia", "my", "mys", "malaysian", "malaysians" },
    { "singapore", "sg", "sgp", "singaporean", "singaporeans" },
    { "philippines", "ph", "phl", "filipino", "filipinos" },
    { "australia", "au", "aus", "australian", "australians", "aussies" },
    { "new zealand", "nz", "nzl", "kiwis" },
    { "south africa", "za", "zaf", "south african" },
    { "egypt", "eg", "egy", "egyptian", "egyptians" },
    { "nigeria", "ng", "nga", "nigerian", "nigerians" },
    { "kenya", "ke", "ken", "kenyan", "kenyans" },
    { "morocco", "ma", "mar", "moroccan", "moroccans" },
    { "israel", "il", "isr", "israeli", "israelis" },
    { "saudi arabia", "sa", "sau", "saudi", "saudis" },
    { "united arab emirates", "uae", "ae", "are", "emirati" },
};

const char *const *fr_country(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(countries); i++)
        for (size_t k = 0; k < ARRAY_SIZE(countries[i]) && countries[i][k]; k++)
            if (strlen(countries[i][k]) > 3 && str_eq(countries[i][k], word))
                return countries[i];
            else if (str_eq(word, "usa") && str_eq(countries[i][k], "usa"))
                return countries[i];
            else if (str_eq(word, "uk") && str_eq(countries[i][k], "uk"))
                return countries[i];
    return NULL;
}

static const char *const opposites[][2] = {
    { "fail", "pass" },
    { "keep", "return" },
    { "kept", "return" },
    { "keep", "miss" },
    { "kept", "miss" },
    { "attend", "miss" },
    { "inactiv", "activ" },
    { "part", "full" },
    { "outstand", "pay" },
    { "overdu", "pay" },
    { "owe", "pay" },
    { "owing", "pay" },
    { "absent", "present" },
    { "present", "absent" },
    { "clos", "open" },
    { "open", "clos" },
    { "open", "resolv" },
    { "pending", "complet" },
    { "incomplet", "complet" },
    { "unfinish", "complet" },
    { "lost", "win" },
    { "los", "win" },
    { "disabl", "enabl" },
    { "old", "new" },
    { "return", "first" },
    { "repeat", "first" },
    { "late", "ontim" },
    { "available", "discontinu" },
    { "availabl", "discontinu" },
    { "private", "public" },
    { "left", "activ" },
    { "gone", "activ" },
    { "former", "activ" },
    { "honour", "cancel" },
    { "go ahead", "cancel" },
    { "internal", "external" },
    { "offlin", "onlin" },
    { "remot", "onsit" },
    { "succeed", "fail" },
    { "successful", "fail" },
    { "alive", "deceas" },
    { "dead", "alive" },
    { "healthy", "sick" },
    { "single", "marri" },
    { "reject", "accept" },
    { "declin", "accept" },
    { "denied", "approv" },
    { "deny", "approv" },
    { "refus", "approv" },
    { "broken", "work" },
    { "empty", "occupi" },
    { "vacant", "occupi" },
    { "stay", "leav" },
    { "stay", "churn" },
    { "retain", "churn" },
    { "loyal", "churn" },
    { "free", "pay" },
};

const char *fr_opposite(const char *stem, int n)
{
    for (size_t i = 0; i < ARRAY_SIZE(opposites); i++)
        if (str_eq(opposites[i][0], stem) && n-- == 0)
            return opposites[i][1];
    return NULL;
}

/* Units by what they measure; the size of each in the smallest. */
static const struct {
    const char *word;
    char of;
    double size;
} units[] = {
    { "ms", 't', 0.001 },
    { "millisecond", 't', 0.001 },
    { "milliseconds", 't', 0.001 },
    { "s", 't', 1 },
    { "sec", 't', 1 },
    { "secs", 't', 1 },
    { "second", 't', 1 },
    { "seconds", 't', 1 },
    { "min", 't', 60 },
    { "mins", 't', 60 },
    { "minute", 't', 60 },
    { "minutes", 't', 60 },
    { "h", 't', 3600 },
    { "hr", 't', 3600 },
    { "hrs", 't', 3600 },
    { "hour", 't', 3600 },
    { "hours", 't', 3600 },
    { "d", 't', 86400 },
    { "day", 't', 86400 },
    { "days", 't', 86400 },
    { "night", 't', 86400 },
    { "nights", 't', 86400 },
    { "week", 't', 604800 },
    { "weeks", 't', 604800 },
    { "mg", 'w', 0.001 },
    { "g", 'w', 1 },
    { "gram", 'w', 1 },
    { "grams", 'w', 1 },
    { "kg", 'w', 1000 },
    { "kilo", 'w', 1000 },
    { "kilos", 'w', 1000 },
    { "kilogram", 'w', 1000 },
    { "kilograms", 'w', 1000 },
    { "ton", 'w', 1e6 },
    { "tons", 'w', 1e6 },
    { "tonnes", 'w', 1e6 },
    { "mm", 'l', 0.001 },
    { "cm", 'l', 0.01 },
    { "centimeters", 'l', 0.01 },
    { "centimetres", 'l', 0.01 },
    { "m", 'l', 1 },
    { "meter", 'l', 1 },
    { "meters", 'l', 1 },
    { "metres", 'l', 1 },
    { "km", 'l', 1000 },
    { "kilometers", 'l', 1000 },
    { "kilometres", 'l', 1000 },
    { "mile", 'l', 1609.344 },
    { "miles", 'l', 1609.344 },
    { "sqm", 'a', 1 },
    { "m2", 'a', 1 },
    { "m²", 'a', 1 },
    { "hectare", 'a', 10000 },
    { "hectares", 'a', 10000 },
    { "ha", 'a', 10000 },
    { "sqft", 'a', 0.092903 },
    { "litre", 'v', 1 },
    { "litres", 'v', 1 },
    { "liter", 'v', 1 },
    { "liters", 'v', 1 },
    { "l", 'v', 1 },
    { "ml", 'v', 0.001 },
    { "wh", 'e', 1 },
    { "kwh", 'e', 1000 },
    { "mwh", 'e', 1e6 },
    { "w", 'p', 1 },
    { "kw", 'p', 1000 },
    { "mw", 'p', 1e6 },
    { "eur", '$', 1 },
    { "euro", '$', 1 },
    { "euros", '$', 1 },
    { "€", '$', 1 },
    { "usd", '$', 1 },
    { "dollar", '$', 1 },
    { "dollars", '$', 1 },
    { "$", '$', 1 },
    { "bucks", '$', 1 },
    { "gbp", '$', 1 },
    { "pound", '$', 1 },
    { "pounds", '$', 1 },
    { "£", '$', 1 },
    { "%", '%', 1 },
    { "percent", '%', 1 },
    { "pct", '%', 1 },
    { "words", 'n', 1 },
    { "points", 'n', 1 },
    { "stars", 'n', 1 },
};

bool fr_is_unit(const char *word)
{
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_eq(units[i].word, word))
            return true;
    return false;
}

bool fr_has_unit(const struct nl_column *c)
{
    for (int w = 0; w < c->words.n; w++)
        if (fr_is_unit(c->words.words[w]))
            return true;
    return false;
}

double fr_unit_factor(const struct nl_column *c, const char *said)
{
    char of = 0;
    double size = 0;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_eq(units[i].word, said)) {
            of = units[i].of;
            size = units[i].size;
        }
    if (!of)
        return 0;
    for (int w = c->words.n - 1; w >= 0; w--)
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
            if (str_eq(units[i].word, c->words.words[w]) && units[i].of == of)
                return size / units[i].size;
    if (fr_has_unit(c)) /* a column in per cent is not in euros */
        return 0;
    return of == '$' || of == 'n' || of == '%' ? 1 : 0;
}
