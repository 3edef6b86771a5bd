/* What an agent is told about its sandbox: functions, examples that run, templates. */

#include "api/sandboxes.h"
#include "base/str.h"

/* ---- functions ---- */

json_t *sandbox_help_functions(const struct sandbox_terms *terms)
{
    return json_pack(
        "{s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
        "s:s}, s:O, s:{s:s, s:s, s:s, s:s}}",
        "database_functions", "db_query(query, parameters)",
        "Run a SELECT with :name parameters; rows come as dicts. Works with and without await.",
        "db_tables()", "Names of the tables.", "db_schema(table_name)",
        "Columns of a table and their types.", "debug_functions", "debug(message, level)",
        "Log a message at DEBUG, INFO, WARNING or ERROR.", "inspect_var(name, value)",
        "Record type, size and text of a value.", "get_debug_info()",
        "What was logged and recorded so far.", "built_in_functions", "print(...)",
        "Write to stdout.", "len(x)", "Number of items.", "str(x)", "Text of a value.", "type(x)",
        "Type of a value.", "range(n)", "Numbers from 0 to n - 1.", "sorted(x)", "A sorted list.",
        "sum(x)", "Sum of numbers.", "isinstance(x, t)", "Whether a value is of a type.",
        "sql(query)", "SQL on the sandbox's tables and DataFrames; a DataFrame comes back.",
        "display(x)", "Show a value or a figure.", "allowed_modules",
        json_object_get(terms->config, "allowed_modules"), "examples", "basic_query",
        "rows = await db_query('SELECT * FROM users LIMIT 10')", "parameterized_query",
        "rows = await db_query('SELECT * FROM users WHERE id = :id', {'id': 1})", "debug_logging",
        "debug('Processing started', 'INFO')", "variable_inspection", "inspect_var('data', data)");
}

/* ---- examples ---- */

static const struct {
    const char *key, *title, *description, *code;
} examples[] = {
    { "basic_data_processing", "Basic data processing", "Totals per group from a list of records.",
      "orders = [\n"
      "    {'customer': 'Ada', 'amount': 120.5},\n"
      "    {'customer': 'Lin', 'amount': 80.0},\n"
      "    {'customer': 'Ada', 'amount': 19.5},\n"
      "]\n"
      "debug(f'{len(orders)} orders', 'INFO')\n"
      "totals = {}\n"
      "for order in orders:\n"
      "    totals[order['customer']] = totals.get(order['customer'], 0) + order['amount']\n"
      "inspect_var('totals', totals)\n"
      "__result__ = {'orders': len(orders), 'totals': totals}\n" },
    { "text_analysis", "Text analysis", "The most frequent words of a text.",
      "import re\n"
      "from collections import Counter\n"
      "\n"
      "text = 'A sandbox runs code. The code of a sandbox sees only its own files.'\n"
      "words = re.findall(r'[a-z]+', text.lower())\n"
      "debug(f'{len(words)} words', 'INFO')\n"
      "__result__ = {'words': len(words), 'most_common': Counter(words).most_common(3)}\n" },
    { "knowledge_extraction", "Knowledge extraction", "Addresses and numbers from documents.",
      "import re\n"
      "\n"
      "documents = [\n"
      "    {'id': 1, 'content': 'Write to ada@example.org or call 555-010-1234.'},\n"
      "    {'id': 2, 'content': 'No contact is given here.'},\n"
      "]\n"
      "found = []\n"
      "for document in documents:\n"
      "    mails = re.findall(r'[\\w.+-]+@[\\w-]+\\.[\\w.]+', document['content'])\n"
      "    phones = re.findall(r'\\d{3}-\\d{3}-\\d{4}', document['content'])\n"
      "    if not mails and not phones:\n"
      "        debug(f'nothing in document {document[\"id\"]}', 'WARNING')\n"
      "    found.append({'document_id': document['id'], 'emails': mails, 'phones': phones})\n"
      "__result__ = {'documents': len(documents), 'found': found}\n" },
    { "pipeline_debugging", "Pipeline debugging", "Follow records through the steps of a pipeline.",
      "debug('Checking the input', 'INFO')\n"
      "records = [{'id': 1, 'content': 'text'}, {'id': 2, 'content': ''}]\n"
      "inspect_var('records', records)\n"
      "valid = []\n"
      "for record in records:\n"
      "    if record['content']:\n"
      "        valid.append(record)\n"
      "    else:\n"
      "        debug(f'record {record[\"id\"]} is empty', 'WARNING')\n"
      "inspect_var('valid', valid)\n"
      "__result__ = {'input': len(records), 'valid': len(valid), 'debug': get_debug_info()}\n" },
};

json_t *sandbox_help_examples(void)
{
    json_t *all = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(examples); i++)
        json_object_set_new(all, examples[i].key,
                            json_pack("{s:s, s:s, s:s}", "title", examples[i].title, "description",
                                      examples[i].description, "code", examples[i].code));
    return json_pack(
        "{s:o, s:[s, s, s, s, s]}", "examples", all, "usage_notes",
        "Assign __result__, or end with an expression: it is the result of the execution.",
        "Variables stay for the next execution of the same sandbox.",
        "await works at the top of the code.",
        "debug() and inspect_var() are kept with the execution and come back in debug_info.",
        "Only the modules of allowed_modules can be imported; the policy `open` allows all.");
}

/* ---- templates ---- */

const char *const sandbox_template_types[] = { "data_processor", "text_analyzer",
                                               "database_connector", NULL };

static const char *const templates[] = {
    "from processor_pipeline import AsyncProcessor\n"
    "\n"
    "\n"
    "class CustomDataProcessor(AsyncProcessor):\n"
    "    meta = {'name': 'custom_data_processor', 'input_type': 'any', 'output_type': 'dict'}\n"
    "\n"
    "    async def process(self, data):\n"
    "        debug('Processing data', 'INFO')\n"
    "        return await self.transform_data(data)\n"
    "\n"
    "    async def transform_data(self, data):\n"
    "        # Add your transformation logic here\n"
    "        return {'data': data}\n"
    "\n"
    "    async def after_process(self, result):\n"
    "        inspect_var('result', result)\n"
    "        return result\n"
    "\n"
    "\n"
    "__result__ = CustomDataProcessor\n",
    "import re\n"
    "from collections import Counter\n"
    "from processor_pipeline import AsyncProcessor\n"
    "\n"
    "\n"
    "class CustomTextAnalyzer(AsyncProcessor):\n"
    "    meta = {'name': 'custom_text_analyzer', 'input_type': 'str', 'output_type': 'dict'}\n"
    "\n"
    "    async def process(self, data):\n"
    "        debug(f'Analyzing {len(data)} characters', 'INFO')\n"
    "        return await self.analyze_data(data)\n"
    "\n"
    "    async def analyze_data(self, data):\n"
    "        # Add your transformation logic here\n"
    "        words = re.findall(r'\\w+', data.lower())\n"
    "        return {'words': len(words), 'most_common': Counter(words).most_common(10)}\n"
    "\n"
    "\n"
    "__result__ = CustomTextAnalyzer\n",
    "from processor_pipeline import AsyncProcessor\n"
    "\n"
    "\n"
    "class CustomDatabaseConnector(AsyncProcessor):\n"
    "    meta = {'name': 'custom_database_connector', 'input_type': 'str', 'output_type': 'list'}\n"
    "\n"
    "    async def process(self, data):\n"
    "        debug(f'Reading {data}', 'INFO')\n"
    "        rows = await db_query(data)\n"
    "        return await self.transform_data(rows)\n"
    "\n"
    "    async def transform_data(self, data):\n"
    "        # Add your transformation logic here\n"
    "        return data\n"
    "\n"
    "\n"
    "__result__ = CustomDatabaseConnector\n",
};

const char *sandbox_template(const char *type)
{
    for (size_t i = 0; sandbox_template_types[i]; i++)
        if (str_eq(type, sandbox_template_types[i]))
            return templates[i];
    return templates[0];
}
